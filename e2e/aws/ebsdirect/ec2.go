package ebsdirect

import (
	"context"
	_ "embed"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
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
			return out, failure
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

//go:embed rules.yaml
var rulesFile []byte

// rules are those of parameters.
var rules = sync.OnceValue(func() endpoint.Rules { return endpoint.ReadRules(rulesFile) })

// The forms of parameters in rules.yaml and in the API's model.
var (
	snapshotID = regexp.MustCompile(`^snap-([0-9a-f]{8}|[0-9a-f]{17})$`)
	tokenForm  = regexp.MustCompile(`^[A-Za-z0-9+/=]{1,256}$`)
	sumForm    = regexp.MustCompile(`^[A-Za-z0-9+/=]{1,64}$`)
	keyARN     = regexp.MustCompile(`^arn:aws[a-z-]*:kms:([^:]*):([0-9]{12}):key/.+$`)
)

func wellFormed(id string) bool { return snapshotID.MatchString(id) }

// known are the query's parameters of each action (model). The real service ignores
// others; a client that sends them is wrong.
var known = map[string]string{
	"ListSnapshotBlocks": "maxResults pageToken startingBlockIndex", "ListChangedBlocks": "firstSnapshotId maxResults pageToken startingBlockIndex",
	"GetSnapshotBlock": "blockToken",
}

// queried checks the names of the query's parameters.
func queried(action string, query url.Values) *Failure {
	for name, values := range query {
		if !strings.Contains(" "+known[action]+" ", " "+name+" ") || len(values) != 1 {
			return invalid("INVALID_PARAMETER_VALUE", "the parameter %s of %s", name, action)
		}
	}
	return nil
}

// shortened shortens a message to the model's 256 characters.
func shortened(f *Failure) *Failure {
	if one := []rune(f.Message); len(one) > 256 {
		short := *f
		short.Message = string(one[:256])
		return &short
	}
	return f
}

func internal(err error) *Failure {
	return failing(http.StatusInternalServerError, "InternalServerException", "", "%v", err)
}
