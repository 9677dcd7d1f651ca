package awsapi

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ebs"
	ebstypes "github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const listing, listingImages = "listing your snapshots", "listing your images"

// The states of a snapshot.
const (
	SnapshotPending   = "pending"
	SnapshotCompleted = "completed"
	SnapshotError     = "error"
)

// Snapshot is an EBS snapshot.
type Snapshot struct {
	ID          string `json:"snapshot"`
	Owner       string `json:"-"`
	State       string `json:"state"`
	Region      string `json:"region"`
	Description string `json:"-"`
	// Started is when the snapshot was started.
	Started time.Time `json:"started"`
	// Said is AWS's explanation of the state, or empty.
	Said string `json:"-"`
	// Progress is how much of a pending snapshot is done, such as 30%.
	Progress string `json:"-"`
	// Size is the size of the volume, in GiB.
	Size      int64 `json:"size_gib"`
	Encrypted bool  `json:"-"`
	// Key is the ARN of the KMS key of an encrypted snapshot.
	Key  string            `json:"-"`
	Tags map[string]string `json:"tags"`
	// Archived says that the snapshot is in the archive tier.
	Archived bool `json:"-"`
	// Outpost is the ARN of the Outpost that has the snapshot, or empty.
	Outpost string `json:"-"`
}

// NewSnapshot says what kind of snapshot to start.
type NewSnapshot struct {
	// Token makes a repeated start return the first snapshot, instead of starting
	// another one. It has up to 64 characters.
	Token, Description string
	// Size is the size of the volume, in GiB.
	Size int64
	// Parent is the ID of the snapshot from which all blocks come that are not put.
	// The parent decides the encryption.
	Parent string
	// Encrypted encrypts the snapshot with Key, the ARN of a KMS key. An empty Key is
	// the account's default key.
	Encrypted bool
	Key       string
	Tags      map[string]string
	// Timeout is how long the snapshot may stay without a new block, from 10 minutes
	// to 3 days.
	Timeout time.Duration
}

// Snapshot reads a snapshot. EC2 may not find a new one at once.
func (a *AWS) Snapshot(ctx context.Context, id string) (Snapshot, error) {
	var found []Snapshot
	doing := "reading the snapshot " + id
	err := a.settled(ctx, func() (err error) {
		found, err = a.snapshotsOf(ctx, doing, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
		if err == nil && len(found) != 1 {
			return fmt.Errorf("%s: %w", doing, &APIError{Code: "InvalidSnapshot.NotFound",
				Said: "the answer has no snapshot"})
		}
		return err
	})
	if err != nil {
		return Snapshot{}, err
	}
	return found[0], nil
}

func (a *AWS) snapshotsOf(ctx context.Context, doing string, in *ec2.DescribeSnapshotsInput) ([]Snapshot, error) {
	pages := ec2.NewDescribeSnapshotsPaginator(a.ec2, in)
	return collect(each[types.Snapshot](ctx, doing, pages),
		func(in types.Snapshot) Snapshot { return snapshotOf(in, a.Region) })
}

// ownSnapshots lists the caller's snapshots in the region. Without a page size, EC2 reads
// all at once, and may not answer in time.
func (a *AWS) ownSnapshots(ctx context.Context, doing string, by ...types.Filter) ([]Snapshot, error) {
	return a.snapshotsOf(ctx, doing,
		&ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}, Filters: by, MaxResults: new(int32(1000))})
}

func snapshotOf(s types.Snapshot, region string) Snapshot {
	return Snapshot{
		ID: aws.ToString(s.SnapshotId), Owner: aws.ToString(s.OwnerId), State: string(s.State),
		Said: aws.ToString(s.StateMessage), Region: region, Progress: aws.ToString(s.Progress),
		Size: int64(aws.ToInt32(s.VolumeSize)), Encrypted: aws.ToBool(s.Encrypted), Started: aws.ToTime(s.StartTime),
		Key: aws.ToString(s.KmsKeyId), Tags: tagsOf(s.Tags), Outpost: aws.ToString(s.OutpostArn),
		Archived:    s.StorageTier == types.StorageTierArchive && s.RestoreExpiryTime == nil,
		Description: aws.ToString(s.Description),
	}
}

// StartSnapshot starts a snapshot and returns its ID.
func (a *AWS) StartSnapshot(ctx context.Context, n NewSnapshot) (string, error) {
	in := &ebs.StartSnapshotInput{
		VolumeSize: &n.Size, ClientToken: &n.Token, Timeout: new(int32(n.Timeout / time.Minute)),
		Description: Some(n.Description), ParentSnapshotId: Some(n.Parent), Encrypted: Some(n.Encrypted),
		KmsKeyArn: Some(n.Key),
	}
	for _, key := range slices.Sorted(maps.Keys(n.Tags)) {
		in.Tags = append(in.Tags, ebstypes.Tag{Key: aws.String(key), Value: aws.String(n.Tags[key])})
	}
	ctx, done := unbroken(ctx)
	defer done()
	// A full quota of pending snapshots does not empty while a person waits.
	out, err := a.ebs.StartSnapshot(ctx, in, func(e *ebs.Options) {
		e.Retryer = retry.AddWithMaxAttempts(e.Retryer, 3)
	})
	if err != nil {
		return "", explain("starting a snapshot", err)
	}
	if out.SnapshotId == nil {
		return "", errIncomplete("starting a snapshot", "ID")
	}
	return *out.SnapshotId, nil
}

// CompleteSnapshot ends the writing of a snapshot. Blocks is the number of different
// blocks that were put, and sum the SHA-256 of their SHA-256 sums in the order of the
// blocks. The snapshot is completed some time later.
func (a *AWS) CompleteSnapshot(ctx context.Context, id string, blocks int, sum [32]byte) error {
	_, err := a.ebs.CompleteSnapshot(ctx, &ebs.CompleteSnapshotInput{
		SnapshotId: aws.String(id), ChangedBlocksCount: aws.Int32(int32(blocks)), Checksum: aws.String(encoded(sum)),
		ChecksumAlgorithm:         ebstypes.ChecksumAlgorithmChecksumAlgorithmSha256,
		ChecksumAggregationMethod: ebstypes.ChecksumAggregationMethodChecksumAggregationLinear,
	})
	return explain("completing the snapshot "+id, err)
}

// RemoveSnapshot deletes a snapshot that no image has. A snapshot that does not exist
// is no error; with ForNew, it may exist and is deleted when EC2 finds it.
func (a *AWS) RemoveSnapshot(ctx context.Context, id string) error {
	if err := a.deleteSnapshot(ctx, id, "deleting the snapshot "+id); !IsNotFound(err) {
		return err
	}
	return nil
}

// deleteSnapshot deletes a snapshot. After the deregistration of an image, EC2 says for
// some time that the snapshot is in use (https://github.com/boto/boto/issues/3019).
func (a *AWS) deleteSnapshot(ctx context.Context, id, doing string) error {
	return a.repeated(ctx, patienceMost*a.settle, IsInUse, func() error {
		return a.settled(ctx, func() error {
			_, err := a.ec2.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: aws.String(id)})
			return explain(doing, err)
		})
	})
}

// IsInUse says that an image uses a snapshot, so the snapshot cannot be deleted.
func IsInUse(err error) bool { return hasCode(err, "InvalidSnapshot.InUse") }

// AwaitSnapshot waits until a new snapshot is completed.
func (a *AWS) AwaitSnapshot(ctx context.Context, id string) (Snapshot, error) {
	a = a.ForNew()
	var s Snapshot
	err := a.await(ctx, "snapshot "+id, SnapshotCompleted, func() (state, why string, err error) {
		s, err = a.Snapshot(ctx, id)
		return s.State, s.Said, err
	})
	return s, err
}

// DefaultEncryption says whether the account encrypts all new volumes and snapshots of
// the region, and the KMS key for this.
func (a *AWS) DefaultEncryption(ctx context.Context) (on bool, key string, err error) {
	out, err := a.ec2.GetEbsEncryptionByDefault(ctx, &ec2.GetEbsEncryptionByDefaultInput{})
	if err != nil {
		return false, "", explain("reading EBS encryption by default", err)
	}
	if !aws.ToBool(out.EbsEncryptionByDefault) {
		return false, "", nil
	}
	key, err = a.VolumeKey(ctx)
	return true, key, err
}

// Retire deregisters an image and deletes those of its snapshots that are free. If all
// are, EC2 does both in one call: a run that ends between two calls would leave
// snapshots that no image names. Stays has an error for each free snapshot that stays.
func (a *AWS) Retire(ctx context.Context, i Image, free []string) (stays map[string]error, err error) {
	all := len(free) > 0 && !slices.ContainsFunc(i.Snapshots,
		func(id string) bool { return !slices.Contains(free, id) })
	out, err := a.ec2.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: &i.ID,
		DeleteAssociatedSnapshots: Some(all)})
	if err = explain("deregistering the image "+i.ID, err); err != nil && !IsGone(err) {
		return nil, err // a first call may have lost its answer
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
	Why string `json:"why"`
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
		if c.snapshots, err = a.ownSnapshots(ctx, listing); err == nil {
			c.images, err = a.ownImages(ctx, listingImages)
		}
		return c, err
	})
	var all content
	for _, region := range slices.Sorted(maps.Keys(read)) {
		all.snapshots, all.images = append(all.snapshots, read[region].snapshots...),
			append(all.images, read[region].images...)
	}
	return orphans(all.images, all.snapshots), err
}

// copied is how EC2 describes the snapshot of an image's copy, and made how it describes
// that of an image from an instance.
var (
	copied = regexp.MustCompile(`^Copied for DestinationAmi (ami-[0-9a-f]+) from SourceAmi (ami-[0-9a-f]+)(?: for ` +
		`SourceSnapshot (snap-[0-9a-f]+))?`)
	made = regexp.MustCompile(`^Created by CreateImage\([^)]*\) for (ami-[0-9a-f]+)`)
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
		return slices.ContainsFunc(slices.Collect(maps.Keys(s.Tags)),
			func(key string) bool { return strings.HasPrefix(key, prefix) })
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
