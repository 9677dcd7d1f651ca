package amiimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// register registers the AMI of the snapshot, copies it and shares it.
func (r *run) register(ctx context.Context) error {
	if err := r.replace(ctx, r.aws); err != nil {
		return err
	}
	if before := r.before[r.aws.Region]; slices.Contains(before.Snapshots, r.result.Upload.Snapshot.ID) {
		r.result.Image = before
	} else if err := r.registerNew(ctx); err != nil {
		return err
	}
	r.Say("registered %s in %s", r.result.Image.ID, r.aws.Region)
	if err := r.finish(ctx, r.aws, r.result.Image); err != nil {
		return err
	}
	return r.copy(ctx)
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
			if err := r.replace(ctx, a); err != nil {
				return err
			}
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
	if before := r.before[a.Region]; before.ID != "" && before.Source == r.result.Image.ID {
		*made, err = a.AwaitImage(ctx, before.ID)
		return err
	}
	key, named := r.Spec.RegionKeys[a.Region]
	r.Say("copying %s to %s", r.result.Image.ID, a.Region)
	*made, err = a.CopyFrom(ctx, r.aws.Region, r.result.Image.ID, awsapi.Copy{
		Name: r.Spec.Name, Description: r.Spec.Description, Encrypted: r.Spec.Encrypt || named, Key: key, Tags: r.Spec.Tags,
	})
	return err
}

// replace deregisters the AMI that has the name.
func (r *run) replace(ctx context.Context, a *awsapi.AWS) error {
	old := r.taken[a.Region]
	if old.ID == "" {
		return nil
	}
	r.Say("deregistering %s in %s, which has the name %s", old.ID, a.Region, old.Name)
	if err := a.Deregister(ctx, old.ID); err != nil {
		return err
	}
	if !r.Spec.ForceDeleteSnapshot {
		return nil
	}
	var errs []error
	for _, id := range old.Snapshots {
		if id != r.result.Upload.Snapshot.ID { // an import that was killed may have registered this snapshot
			errs = append(errs, a.RemoveSnapshot(ctx, id))
		}
	}
	return errors.Join(errs...)
}

// finish shares and deprecates an AMI.
func (r *run) finish(ctx context.Context, a *awsapi.AWS, i awsapi.Image) error {
	s := r.Spec
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

// undo removes what a failed import made.
func (r *run) undo(ctx context.Context) error {
	uploaded := r.result.Upload.Snapshot.ID
	if r.result.Image.ID == "" { // the answer to the registration may have been lost
		if i, err := r.aws.Named(ctx, r.Spec.Name); err == nil && slices.Contains(i.Snapshots, uploaded) {
			r.result.Image = i
		}
	}
	var errs []error
	for _, i := range append(r.result.Copies, r.result.Image) {
		if i.ID == "" {
			continue
		}
		a := r.aws.In(i.Region)
		if now, err := a.Image(ctx, i.ID); err == nil { // a copy shows its snapshots late
			i = now
		}
		i.Snapshots = slices.DeleteFunc(i.Snapshots, func(id string) bool { return id == uploaded })
		errs = append(errs, Remove(ctx, a, i))
	}
	if r.Spec.Keep {
		return errors.Join(append(errs, fmt.Errorf("the snapshot %s stays: the same import uploads nothing again", uploaded))...)
	}
	return errors.Join(append(errs, r.aws.RemoveSnapshot(ctx, uploaded), r.forget())...)
}

// Remove deregisters an AMI and deletes its snapshots. An AMI that does not exist is
// no error.
func Remove(ctx context.Context, a *awsapi.AWS, i awsapi.Image) error {
	if err := a.Deregister(ctx, i.ID); err != nil && !awsapi.IsNotFound(err) {
		return err
	}
	var errs []error
	for _, id := range i.Snapshots {
		errs = append(errs, a.RemoveSnapshot(ctx, id))
	}
	return errors.Join(errs...)
}
