package amiimport

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// register registers the AMI of the snapshot, copies it and shares it. The snapshots of
// the AMIs that it replaces go last.
func (r *run) register(ctx context.Context) (err error) {
	if before := r.named[r.aws.Region]; slices.Contains(before.Snapshots, r.result.Upload.Snapshot.ID) {
		r.result.Image, err = r.aws.AwaitImage(ctx, before.ID)
	} else if err = r.replace(ctx, r.aws); err == nil {
		err = r.registerNew(ctx)
	}
	if err != nil {
		return err
	}
	r.Say("registered %s in %s", r.result.Image.ID, r.aws.Region)
	if err := r.finish(ctx, r.aws, r.result.Image); err != nil {
		return err
	}
	if err := r.copy(ctx); err != nil {
		return err
	}
	return r.removeReplaced(ctx)
}

func (r *run) registerNew(ctx context.Context) (err error) {
	s := r.Spec
	r.result.Image, err = r.aws.Register(ctx, awsapi.NewImage{
		Name: s.Name, Description: s.Description, Architecture: s.Architecture, BootMode: s.BootMode, RootDevice: cmp.Or(s.RootDevice, "/dev/xvda"),
		Snapshot: r.result.Upload.Snapshot.ID, Size: int32(s.VolumeSize), VolumeType: cmp.Or(s.VolumeType, defaultVolume), IOPS: int32(s.IOPS),
		Throughput: int32(s.Throughput), InitializationRate: int32(s.InitializationRate), SRIOV: s.SRIOV, IMDSv2: s.IMDS != imdsOptional, TPM: s.TPM != "",
		UEFIData: strings.Join(strings.Fields(s.UEFIData), ""), Tags: s.Tags,
	})
	return err
}

// copy copies the AMI to all regions at the same time.
func (r *run) copy(ctx context.Context) error {
	regions := r.copies()
	r.result.Copies = make([]awsapi.Image, len(regions))
	group, ctx := errgroup.WithContext(ctx)
	for n, region := range regions {
		group.Go(func() error {
			a := r.aws.In(region)
			if err := r.copyTo(ctx, a, &r.result.Copies[n]); err != nil {
				return err
			}
			return r.finish(ctx, a, r.result.Copies[n])
		})
	}
	return group.Wait()
}

// copyTo copies the AMI to a region, or waits for the copy of an import that was killed.
func (r *run) copyTo(ctx context.Context, a *awsapi.AWS, made *awsapi.Image) (err error) {
	if before := r.named[a.Region]; before.ID != "" && before.Source == r.result.Image.ID {
		*made, err = a.AwaitImage(ctx, before.ID)
		return err
	}
	if err := r.replace(ctx, a); err != nil {
		return err
	}
	key, named := r.Spec.RegionKeys[a.Region]
	r.Say("copying %s to %s", r.result.Image.ID, a.Region)
	c := awsapi.Copy{Name: r.Spec.Name, Description: r.Spec.Description, Encrypted: r.Spec.Encrypt || named, Key: key, Tags: r.Spec.Tags}
	// The same copy of the same import has the same token, also after a crash.
	c.Token = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %s %s %+v", r.result.Upload.Token, a.Region, r.result.Image.ID, c)))
	*made, err = a.CopyFrom(ctx, r.aws.Region, r.result.Image.ID, c)
	return err
}

// finish shares and deprecates an AMI.
func (r *run) finish(ctx context.Context, a *awsapi.AWS, i awsapi.Image) error {
	a, s := a.ForNew(), r.Spec
	shares := awsapi.Shares{Accounts: s.Users, Groups: s.Groups, Organizations: s.Organizations, Units: s.Units}
	if err := a.Share(ctx, i, shares, s.SnapshotUsers); err != nil {
		return err
	}
	at, err := s.deprecation()
	if err != nil || at.IsZero() {
		return err
	}
	return a.Deprecate(ctx, i.ID, at)
}
