package ebsdirect

import (
	"context"
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// ec2 serves the calls of EC2 about snapshots.
func (d *Double) ec2() *endpoint.Endpoint {
	return endpoint.New(d.AccessKey, endpoint.Service{
		Name: "ec2", Protocol: endpoint.EC2{Version: "2016-11-15"}, Actions: map[string]endpoint.Action{
			"DescribeSnapshots":         counted(d, d.describe),
			"DeleteSnapshot":            counted(d, d.remove),
			"GetEbsEncryptionByDefault": counted(d, d.byDefault),
			"GetEbsDefaultKmsKeyId":     counted(d, d.defaultKey),
		},
	})
}

// counted counts a call, and lets a test make it fail.
func counted[In, Out any](d *Double, carryOut func(In) (Out, error)) endpoint.Action {
	return endpoint.Handle(func(_ context.Context, call endpoint.Call, in In) (out Out, err error) {
		failure, happens := d.admit(call.Action, "")
		defer d.leave()
		if happens != nil {
			happens()
		}
		if failure != nil {
			return out, &endpoint.Failure{Code: failure.Code, Message: failure.Message, Status: failure.Status}
		}
		return carryOut(in)
	})
}

type ec2Snapshot struct {
	ID        string   `xml:"snapshotId"`
	State     string   `xml:"status"`
	Message   string   `xml:"statusMessage,omitempty"`
	Progress  string   `xml:"progress"`
	Owner     string   `xml:"ownerId"`
	Size      int64    `xml:"volumeSize"`
	Encrypted bool     `xml:"encrypted"`
	Key       string   `xml:"kmsKeyId,omitempty"`
	Started   string   `xml:"startTime"`
	Tags      []ec2Tag `xml:"tagSet>item"`
}

type ec2Tag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type describeOut struct {
	Snapshots []ec2Snapshot `xml:"snapshotSet>item"`
}

func (d *Double) describe(in struct {
	IDs []string `query:"SnapshotId"`
}) (out describeOut, err error) {
	ids := in.IDs
	if len(ids) == 0 {
		ids = d.IDs()
	}
	for _, id := range ids {
		s, known := d.Describe(id)
		if !known || s.Owner != d.Account && !s.Public {
			if slices.Contains(in.IDs, id) {
				return out, endpoint.Fail("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", id)
			}
			continue
		}
		one := ec2Snapshot{
			ID: s.ID, State: s.State, Message: s.Message, Progress: "100%", Owner: s.Owner, Size: s.Size, Encrypted: s.Encrypted, Key: s.Key,
			Started: s.Started.UTC().Format(time.RFC3339),
		}
		for _, t := range s.Tags {
			one.Tags = append(one.Tags, ec2Tag(t))
		}
		out.Snapshots = append(out.Snapshots, one)
	}
	return out, nil
}

type done struct {
	Return bool `xml:"return"`
}

func (d *Double) remove(in struct {
	ID string `query:"SnapshotId"`
}) (done, error) {
	if s := d.Find(in.ID); s == nil || s.Owner != d.Account || !d.Delete(in.ID) {
		return done{}, endpoint.Fail("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", in.ID)
	}
	return done{true}, nil
}

type byDefaultOut struct {
	On bool `xml:"ebsEncryptionByDefault"`
}

func (d *Double) byDefault(struct{}) (byDefaultOut, error) {
	return byDefaultOut{d.EncryptByDefault}, nil
}

type defaultKeyOut struct {
	Key string `xml:"kmsKeyId"`
}

func (d *Double) defaultKey(struct{}) (defaultKeyOut, error) {
	return defaultKeyOut{d.DefaultKey}, nil
}
