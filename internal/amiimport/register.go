package amiimport

import (
	"cmp"
	"context"
	"errors"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// register registers the AMI of the snapshot, copies it and shares it.
func (r *run) register(ctx context.Context) (err error) {
	s := r.Spec
	r.result.Image, err = r.aws.Register(ctx, awsapi.NewImage{
		Name: s.Name, Description: s.Description, Architecture: s.Architecture, BootMode: s.BootMode, RootDevice: cmp.Or(s.RootDevice, "/dev/xvda"),
		Snapshot: r.result.Upload.Snapshot.ID, Size: int32(s.VolumeSize), VolumeType: cmp.Or(s.VolumeType, "gp3"), IOPS: int32(s.IOPS),
		Throughput: int32(s.Throughput), InitializationRate: int32(s.InitializationRate), SRIOV: s.SRIOV, IMDSv2: true, TPM: s.TPM != "",
		UEFIData: s.UEFIData, Tags: s.Tags,
	})
	if err != nil {
		return err
	}
	if err := r.finish(ctx, r.aws, r.result.Image); err != nil {
		return err
	}
	for _, region := range s.sorted() {
		if region == r.aws.Region {
			continue
		}
		a := r.aws.In(region)
		key := s.RegionKeys[region]
		i, err := a.CopyFrom(ctx, r.aws.Region, r.result.Image.ID, awsapi.Copy{
			Name: s.Name, Description: s.Description, Encrypted: s.Encrypt || key != "", Key: key, Tags: s.Tags,
		})
		if i.ID != "" {
			r.result.Copies = append(r.result.Copies, i)
		}
		if err == nil {
			err = r.finish(ctx, a, i)
		}
		if err != nil {
			return err
		}
		r.Say("copied to %s: %s", region, i.ID)
	}
	return nil
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
	var errs []error
	for _, i := range append(r.result.Copies, r.result.Image) {
		if i.ID != "" {
			errs = append(errs, Remove(ctx, r.aws.In(i.Region), i))
		}
	}
	return errors.Join(append(errs, r.aws.RemoveSnapshot(ctx, r.result.Upload.Snapshot.ID))...)
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
