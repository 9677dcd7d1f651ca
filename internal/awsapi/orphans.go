package awsapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Retire deregisters an image and deletes those of its snapshots that are free. If all
// are, EC2 does both in one call: a run that ends between two calls would leave
// snapshots that no image names. Stays has an error for each free snapshot that stays.
func (a *AWS) Retire(ctx context.Context, i Image, free []string) (stays map[string]error, err error) {
	all := len(free) > 0 && !slices.ContainsFunc(i.Snapshots, func(id string) bool { return !slices.Contains(free, id) })
	in := &ec2.DeregisterImageInput{ImageId: aws.String(i.ID)}
	if all {
		in.DeleteAssociatedSnapshots = aws.Bool(true)
	}
	out, err := a.ec2.DeregisterImage(ctx, in)
	var gone *APIError // a first call may have lost its answer
	if err = explain("deregistering the image "+i.ID, err); err != nil && (!errors.As(err, &gone) || gone.Code != "InvalidAMIID.Unavailable" && !IsNotFound(err)) {
		return nil, err
	}
	deleted := map[string]bool{}
	if out != nil {
		for _, r := range out.DeleteSnapshotResults {
			deleted[aws.ToString(r.SnapshotId)] = r.ReturnCode == types.SnapshotReturnCodesSuccess
		}
	}
	stays = map[string]error{}
	for _, id := range free {
		if deleted[id] {
			continue
		}
		if err := a.deleteSnapshot(ctx, id, "deleting the snapshot "+id+" of "+i.ID); err != nil && !IsNotFound(err) {
			stays[id] = err
		}
	}
	return stays, nil
}

// Orphan is a snapshot of a build, an import or a copy that no image has.
type Orphan struct {
	Snapshot
	// Why says what is known about the snapshot's origin.
	Why string
}

// Orphans lists the orphans in regions, oldest first. The error names the regions that
// could not be read.
func Orphans(ctx context.Context, regions []*AWS) ([]Orphan, error) {
	type content struct {
		snapshots []Snapshot
		images    []Image
	}
	read, err := Each(ctx, regions, func(ctx context.Context, a *AWS) (c content, err error) {
		// Snapshots first: one that gets its image meanwhile is no orphan.
		if c.snapshots, err = a.snapshots(ctx); err == nil {
			c.images, err = a.images(ctx, "self", true)
		}
		return c, err
	})
	var all content
	for _, region := range slices.Sorted(maps.Keys(read)) {
		all.snapshots, all.images = append(all.snapshots, read[region].snapshots...), append(all.images, read[region].images...)
	}
	return orphans(all.images, all.snapshots), err
}

// snapshots lists the caller's snapshots in the region. Without a page size, EC2 reads
// all at once, and may not answer in time.
func (a *AWS) snapshots(ctx context.Context) ([]Snapshot, error) {
	var all []Snapshot
	pages := ec2.NewDescribeSnapshotsPaginator(a.ec2, &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}, MaxResults: aws.Int32(1000)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("listing your snapshots", err)
		}
		for _, in := range page.Snapshots {
			all = append(all, snapshotOf(in, a.Region))
		}
	}
	return all, nil
}

// copied is how EC2 describes the snapshot of an image's copy, and made how it describes
// that of an image from an instance.
var (
	copied = regexp.MustCompile(`^Copied for DestinationAmi (ami-[0-9a-f]+) from SourceAmi (ami-[0-9a-f]+)(?: for SourceSnapshot (snap-[0-9a-f]+))?`)
	made   = regexp.MustCompile(`^Created by CreateImage\([^)]*\) for (ami-[0-9a-f]+)`)
)

// orphans selects the snapshots with eksnode's tags, and copies of what has them, that
// no image has. A pending image does not show its snapshots yet, but they name it.
// Snapshots with tags of an AWS service belong to that service.
func orphans(images []Image, snapshots []Snapshot) []Orphan {
	exists, ours := map[string]bool{}, map[string]bool{}
	for _, i := range images {
		exists[i.ID] = true
		for _, id := range i.Snapshots {
			exists[id] = true
		}
	}
	for _, i := range slices.Concat(NodeBuilds(images)...) {
		ours[i.ID] = true
	}
	tagged := func(s Snapshot, prefix string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(s.Tags)), func(key string) bool { return strings.HasPrefix(key, prefix) })
	}
	for _, s := range snapshots {
		ours[s.ID] = tagged(s, TagPrefix)
	}
	var list []Orphan
	for _, s := range snapshots {
		why, copy := "no AMI has it", copied.FindStringSubmatch(s.Description)
		of := made.FindStringSubmatch(s.Description)
		mine := ours[s.ID]
		if copy != nil {
			of, mine = copy, mine || ours[copy[2]] || ours[copy[3]]
			why = fmt.Sprintf("a copy of %s for %s, which does not exist", copy[2], copy[1])
		}
		if !mine || exists[s.ID] || of != nil && exists[of[1]] || tagged(s, "aws:") {
			continue
		}
		list = append(list, Orphan{s, why})
	}
	slices.SortStableFunc(list, func(x, y Orphan) int { return x.Started.Compare(y.Started) })
	return list
}

// SharedWith lists the permissions that others have for a snapshot.
func (a *AWS) SharedWith(ctx context.Context, snapshot, owner string) ([]string, error) {
	out, err := a.ec2.DescribeSnapshotAttribute(ctx, &ec2.DescribeSnapshotAttributeInput{
		SnapshotId: aws.String(snapshot), Attribute: types.SnapshotAttributeNameCreateVolumePermission,
	})
	if err != nil {
		return nil, explain("reading the permissions of the snapshot "+snapshot, err)
	}
	var users []string
	for _, p := range out.CreateVolumePermissions {
		switch {
		case p.Group != "":
			users = append(users, "a permission for "+string(p.Group))
		case aws.ToString(p.UserId) != owner:
			users = append(users, "a permission for the account "+aws.ToString(p.UserId))
		}
	}
	return users, nil
}
