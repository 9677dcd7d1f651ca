//go:build linux

package aws

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

type snapshotsOut struct {
	Snapshots []*Snapshot `xml:"snapshotSet>item"`
}

func (w *World) describeSnapshots(region string, in listIn) (snapshotsOut, error) {
	w.takeOver()
	all := still(w, w.Snapshots, w.front.goneSnapshots)
	chosen, err := selected(all, region, in.SnapshotId, "InvalidSnapshot.NotFound", in,
		func(s *Snapshot) (string, map[string]string, []Tag) {
			return "", map[string]string{
				"snapshot-id": s.ID, "description": s.Description, "volume-id": s.Volume,
			}, s.Tags
		})
	if err == nil {
		chosen, err = seen(w, chosen, in.SnapshotId, "InvalidSnapshot.NotFound", pendingSnapshot)
	}
	return snapshotsOut{chosen}, err
}

type snapshotIn struct{ SnapshotId, Attribute string }

func (w *World) describeSnapshotAttribute(region string, in snapshotIn) (sharesOut, error) {
	if in.Attribute != "createVolumePermission" {
		return sharesOut{}, endpoint.Refuse("the attribute %q", in.Attribute)
	}
	s, err := w.ownSnapshot(region, in.SnapshotId)
	if err != nil {
		return sharesOut{}, err
	}
	return sharesOut{Volume: s.Shares}, nil
}

func (w *World) modifySnapshot(region string, in struct {
	SnapshotId             string
	CreateVolumePermission permission
	UserGroup, UserId      []string
}) (done, error) {
	s, err := w.ownSnapshot(region, in.SnapshotId)
	if err != nil {
		return done{}, err
	}
	s.Shares = shared(s.Shares, in.CreateVolumePermission)
	return done{true}, nil
}

// Volume is a volume that was made of a snapshot.
type Volume struct {
	// Disk is a file with the content, and Parent the snapshot.
	Disk, Parent string
}

// createSnapshot makes a snapshot of a volume of the world.
func (w *World) createSnapshot(region string, in struct {
	VolumeId, Description string
	TagSpecification      []tagSpecification
}) (out snapshotOut, err error) {
	v, found := w.Volumes[in.VolumeId]
	if !found {
		return out, endpoint.Fail("InvalidVolume.NotFound", "The volume '%s' does not exist.", in.VolumeId)
	}
	f, err := os.Open(v.Disk)
	if err != nil {
		return out, err
	}
	defer f.Close()
	out.ID = w.next("snap")
	s := ebsdirect.Snapshot{ID: out.ID, Owner: Account, State: ebsdirect.Completed, Size: 1, Parent: v.Parent,
		Volume: in.VolumeId, Started: w.ebs.Now()}
	for _, one := range in.TagSpecification {
		for _, tag := range one.Tag {
			s.Tags = append(s.Tags, ebsdirect.Tag(tag))
		}
	}
	return out, w.ebs.Add(s, f)
}

type snapshotOut struct {
	ID string `xml:"snapshotId"`
}

// deleteSnapshot refuses to delete snapshots of images. moto would delete them.
func (w *World) deleteSnapshot(region string, in snapshotIn) (done, error) {
	w.takeOver()
	gone, err := w.ownSnapshot(region, in.SnapshotId)
	if err != nil {
		return done{}, err
	}
	for _, i := range w.Images {
		if slices.ContainsFunc(i.Devices, func(d Drive) bool { return d.Snapshot == in.SnapshotId }) {
			return done{}, endpoint.Fail("InvalidSnapshot.InUse", "The snapshot %s is currently in use by %s",
				in.SnapshotId, i.ID)
		}
	}
	if gone.inUse > 0 {
		gone.inUse--
		return done{}, endpoint.Fail("InvalidSnapshot.InUse", "The snapshot %s is currently in use", in.SnapshotId)
	}
	w.Snapshots = slices.DeleteFunc(w.Snapshots, func(s *Snapshot) bool { return s == gone })
	w.died(gone)
	if w.ebs != nil {
		w.ebs.Delete(gone.ID)
	}
	if gone.Disk.Image == "" || slices.ContainsFunc(w.Snapshots, func(s *Snapshot) bool { return s.Disk == gone.Disk }) {
		return done{true}, nil
	}
	if err := os.Remove(gone.Disk.Image); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done{}, fmt.Errorf("deleting the snapshot %s: %w", gone.ID, err)
	}
	return done{true}, nil
}

// own lists the actions that the world answers itself or changes.
func (w *World) own() map[string]endpoint.Action {
	return map[string]endpoint.Action{
		"ec2:DescribeImages": handle(w, w.describeImages), "ec2:DescribeSnapshots": handle(w, w.describeSnapshots),
		"ec2:DescribeImageAttribute": handle(w, w.describeImageAttribute), "ec2:DescribeSnapshotAttribute": handle(w, w.describeSnapshotAttribute),
		"ec2:ModifyImageAttribute": handle(w, w.modifyImage), "ec2:ModifySnapshotAttribute": handle(w, w.modifySnapshot),
		"kms:EnableKey": w.byKeyID, "kms:CancelKeyDeletion": w.byKeyID,
		"ec2:AttachImageWatermark": handle(w, w.attachWatermark), "ec2:DetachImageWatermark": handle(w, w.detachWatermark),
		"ec2:GetImageAncestry":            handle(w, w.imageAncestry),
		"ec2:GetAllowedImagesSettings":    handle(w, w.allowedImages),
		"ec2:EnableAllowedImagesSettings": handle(w, w.setAllowedState), "ec2:DisableAllowedImagesSettings": handle(w,
			w.setAllowedState),
		"ec2:ReplaceImageCriteriaInAllowedImagesSettings": handle(w, w.setCriteria),
		"ec2:RebootInstances":                             endpoint.Handle(w.rebootInstances),
		"ec2:GetConsoleOutput":                            w.consoleOutput,
		"kms:GetPublicKey":                                handle(w, w.publicKey), "kms:Sign": handle(w, w.sign),
		"ec2:EnableImage": handle(w, w.enableImage), "ec2:ModifyInstanceMetadataOptions": handle(w, w.modifyMetadata),
		"ec2:EnableImageDeprecation": handle(w, w.deprecate), "ec2:DeregisterImage": handle(w, w.deregister), "ec2:DeleteSnapshot": handle(w, w.deleteSnapshot),
		"ec2:DescribeInstanceStatus": handle(w, w.describeInstanceStatus), "ec2:GetEbsEncryptionByDefault": handle(w, w.encryptionByDefault),
		"ec2:GetEbsDefaultKmsKeyId": handle(w, w.defaultKey), "ec2:GetImageBlockPublicAccessState": handle(w, w.blockPublic),
		"servicequotas:GetServiceQuota": handle(w, w.quota), "servicequotas:GetAWSDefaultServiceQuota": handle(w, w.defaultQuota),
		"servicequotas:RequestServiceQuotaIncrease": handle(w, w.raiseQuota),
		"freetier:GetAccountPlanState":              handle(w, w.plan),
		"ec2:CopyImage":                             handle(w, w.copyImage),
		"ec2:CreateImage":                           endpoint.Handle(w.createImage),
		"ec2:CreateTags":                            endpoint.Handle(w.createTags),
		"ec2:CreateKeyPair":                         endpoint.Handle(w.createKeyPair), "ec2:CreateSnapshot": handle(w, w.createSnapshot),
		"ec2:RegisterImage": handle(w, w.registerImage),
		"ec2:RunInstances":  w.runTemplate, "ec2:DescribeInstances": w.describeInstances,
		"ec2:StopInstances": endpoint.Handle(w.stopInstances), "ec2:TerminateInstances": endpoint.Handle(w.terminateInstances),
		"eks:DescribeCluster": endpoint.Handle(w.describeCluster), "eks:DescribeAccessEntry": endpoint.Handle(w.describeAccessEntry),
		"eks:ListAddons": endpoint.Handle(w.listAddons), "eks:DescribeAddon": endpoint.Handle(w.describeAddon),
		"ec2:DescribeRegions":                endpoint.Handle(w.describeRegions),
		"eks:DescribeNodegroup":              endpoint.Handle(w.describeNodegroup),
		"eks:DescribePodIdentityAssociation": endpoint.Handle(w.describeAssociation),
		"eks:ListPodIdentityAssociations":    endpoint.Handle(w.listAssociations),
		"iam:CreateServiceLinkedRole":        endpoint.Handle(w.createServiceLinkedRole),
		"iam:SimulatePrincipalPolicy":        endpoint.Handle(w.simulate),
		"ssm:GetParameter":                   endpoint.Handle(w.getParameter), "ssm:PutParameter": endpoint.Handle(w.putParameter),
		"sts:AssumeRole": endpoint.Handle(w.assumeRole),
	}
}

// handle makes an Action of a function that only reads the world's own fields.
func handle[In, Out any](w *World, carryOut func(region string, in In) (Out, error)) endpoint.Action {
	return endpoint.Handle(func(_ context.Context, call endpoint.Call, in In) (Out, error) {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		return carryOut(call.Region, in)
	})
}

// forwarded returns an action that moto carries out, with the parameters that
// moto uses.
func (w *World) forwarded(parameters []string) endpoint.Action {
	return func(ctx context.Context, protocol endpoint.Protocol, call endpoint.Call) (any, error) {
		for _, name := range parametersOf(protocol, call) {
			if !slices.Contains(parameters, name) {
				return nil, endpoint.Refuse("the parameter %s of %s", name, call.Action)
			}
		}
		return w.forward(ctx, call)
	}
}

// parametersOf returns the names of a call's parameters, without their parts.
func parametersOf(protocol endpoint.Protocol, call endpoint.Call) []string {
	switch protocol.(type) {
	case endpoint.REST, endpoint.RESTXML:
		return slices.Collect(maps.Keys(call.Request.URL.Query()))
	case endpoint.JSON:
		members := map[string]any{}
		if err := json.Unmarshal([]byte(call.Body), &members); err != nil {
			return []string{call.Body}
		}
		return slices.Collect(maps.Keys(members))
	}
	form, err := url.ParseQuery(call.Body)
	if err != nil {
		return []string{call.Body}
	}
	var names []string
	for name := range form {
		name, _, _ = strings.Cut(name, ".")
		if name != "Action" && name != "Version" {
			names = append(names, name)
		}
	}
	return names
}

// CutRegion closes every connection to a region without a response.
func (w *World) CutRegion(region string) {
	w.faults.Lock()
	defer w.faults.Unlock()
	w.cut = append(w.cut, region)
}

// Copy copies an image to a region like CopyImage, and returns the copy.
func (w *World) Copy(named, region, id string, tags bool) *Image {
	w.t.Helper()
	source := w.Image(named)
	made := *source
	made.Region, made.ID, made.SourceInstance, made.Shares = region, id, "", nil
	made.Source, made.SourceRegion = source.ID, source.Region
	if !tags {
		made.Tags = nil
	}
	made.Devices, made.Tags = slices.Clone(made.Devices), slices.Clone(made.Tags)
	for n := range made.Devices {
		made.Devices[n].Snapshot = strings.Replace(id, "ami", "snap", 1)
		w.Snapshots = append(w.Snapshots, &Snapshot{Region: region, ID: made.Devices[n].Snapshot, State: "completed", Owner: Account})
	}
	w.Images = append(w.Images, &made)
	return &made
}

type region struct {
	Name     string `xml:"regionName"`
	Endpoint string `xml:"regionEndpoint"`
	Status   string `xml:"optInStatus"`
}

type regionsOut struct {
	Regions []region `xml:"regionInfo>item"`
}

// describeRegions takes the regions from moto. moto also returns regions of other
// partitions and, unless asked for all, regions that are not enabled.
func (w *World) describeRegions(ctx context.Context, call endpoint.Call, in struct {
	AllRegions bool
	RegionName []string
}) (regionsOut, error) {
	raw, err := w.forward(ctx, call)
	if err != nil {
		return regionsOut{}, err
	}
	var all, out regionsOut
	if err := xml.Unmarshal(raw.Body, &all); err != nil {
		return out, err
	}
	for _, r := range all.Regions {
		if strings.HasPrefix(r.Name, "cn-") || strings.HasPrefix(r.Name, "us-gov-") {
			continue
		}
		if len(w.Enabled) > 0 && !slices.Contains(w.Enabled, r.Name) {
			r.Status = "not-opted-in"
		}
		if in.AllRegions || r.Status != "not-opted-in" {
			out.Regions = append(out.Regions, r)
		}
	}
	return out, nil
}
