package amiimport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// undo removes what a failed import made. The journal stays as long as something of it
// may exist. An AMI that has replaced another one stays: the next import goes on.
func (r *run) undo(ctx context.Context) error {
	made := r.made(ctx)
	replaced := r.replaced.gone()
	var errs []error
	stays := false
	for _, recipe := range replaced {
		n := slices.IndexFunc(made, func(i awsapi.Image) bool { return i.Region == recipe.Region && !ended(i) })
		if stays = stays || n >= 0; n < 0 {
			errs = append(errs, r.restore(ctx, recipe))
		}
	}
	if stays {
		var names []string
		for _, i := range made {
			names = append(names, i.ID+" in "+i.Region)
		}
		return errors.Join(append(errs, fmt.Errorf("%s and the snapshot %s stay, because an AMI was replaced: the same import goes on with them; %s says how to register the old AMI again",
			strings.Join(names, ", "), r.result.Upload.Snapshot.ID, r.replaced.path))...)
	}
	return errors.Join(append(errs, r.removeNew(ctx, len(replaced) > 0))...)
}

// ended says that an image will not become available.
func ended(i awsapi.Image) bool {
	return !slices.Contains([]string{"", "pending", "available"}, i.State)
}

// made are the AMI and the copies that a failed import made.
func (r *run) made(ctx context.Context) []awsapi.Image {
	if r.result.Image.ID == "" { // the answer to the registration may have been lost
		if i, err := r.aws.Named(ctx, r.Spec.Name); err == nil && slices.Contains(i.Snapshots, r.result.Upload.Snapshot.ID) {
			r.result.Image = i
		}
	}
	return slices.DeleteFunc(append([]awsapi.Image{r.result.Image}, r.result.Copies...), func(i awsapi.Image) bool { return i.ID == "" })
}

// removeNew removes the AMI, its copies and, unless it is kept, the snapshot.
func (r *run) removeNew(ctx context.Context, keep bool) error {
	var errs []error
	remove := func(i *awsapi.Image, with func(context.Context, *awsapi.AWS, awsapi.Image) error) {
		if i.ID == "" {
			return
		}
		r.Say("removing %s in %s", i.ID, i.Region)
		if err := with(ctx, r.aws.In(i.Region), *i); err != nil {
			errs = append(errs, fmt.Errorf("%s in %s may still exist: %w", i.ID, i.Region, err))
			return
		}
		*i = awsapi.Image{}
	}
	for n := range r.result.Copies {
		remove(&r.result.Copies[n], Remove)
	}
	remove(&r.result.Image, func(ctx context.Context, a *awsapi.AWS, i awsapi.Image) error { return deregister(ctx, a.ForNew(), i) })
	r.result.Copies = slices.DeleteFunc(r.result.Copies, func(i awsapi.Image) bool { return i.ID == "" })
	uploaded := r.result.Upload.Snapshot.ID
	if r.Spec.Keep || keep {
		return errors.Join(append(errs, fmt.Errorf("the snapshot %s stays: the same import uploads nothing again", uploaded))...)
	}
	if errs = append(errs, r.removeUpload(ctx)); errors.Join(errs...) != nil {
		return errors.Join(errs...)
	}
	return r.forget()
}

// removeUpload deletes the snapshot. The AMI of a registration whose answer was lost may
// use it, and EC2 may show that AMI late.
func (r *run) removeUpload(ctx context.Context) error {
	a, uploaded := r.aws.ForNew(), r.result.Upload.Snapshot.ID
	err := a.RemoveSnapshot(ctx, uploaded)
	if !awsapi.IsInUse(err) {
		return err
	}
	i, looking := a.Named(ctx, r.Spec.Name)
	if looking != nil || !slices.Contains(i.Snapshots, uploaded) {
		return errors.Join(err, looking)
	}
	if err := deregister(ctx, a, i); err != nil {
		return err
	}
	return a.RemoveSnapshot(ctx, uploaded)
}

// Remove deregisters an AMI that this process made, and deletes its snapshots, also those
// of a pending copy. An AMI that does not exist is no error.
func Remove(ctx context.Context, a *awsapi.AWS, i awsapi.Image) error {
	a = a.ForNew()
	var errs []error
	if len(i.Snapshots) == 0 {
		ids, err := a.CopiedSnapshots(ctx, i)
		i.Snapshots, errs = ids, append(errs, err)
	}
	if err := deregister(ctx, a, i); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, id := range i.Snapshots {
		errs = append(errs, a.RemoveSnapshot(ctx, id))
	}
	return errors.Join(errs...)
}

// deregister deregisters an AMI, which may be gone. Then the AMI is not shown any more.
func deregister(ctx context.Context, a *awsapi.AWS, i awsapi.Image) error {
	if err := a.Deregister(ctx, i.ID); err != nil && !awsapi.IsGone(err) {
		return err
	}
	return a.AwaitGone(ctx, i.ID)
}
