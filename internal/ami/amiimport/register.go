package amiimport

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
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
	if r.signer != nil {
		made := append([]awsapi.Image{r.result.Image}, r.result.Copies...)
		if err := r.signer.sign(ctx, r.aws, made, *r.result.Audit, r.result.Manifest); err != nil {
			return err
		}
	}
	return r.removeReplaced(ctx)
}

func (r *run) registerNew(ctx context.Context) (err error) {
	s, device := r.Spec, cmp.Or(r.Spec.RootDevice, "/dev/xvda")
	root := types.EbsBlockDevice{
		SnapshotId: &r.result.Upload.Snapshot.ID, VolumeType: types.VolumeType(cmp.Or(s.VolumeType, defaultVolume)),
		DeleteOnTermination: new(true), VolumeSize: awsapi.Some(int32(s.VolumeSize)), Iops: awsapi.Some(int32(s.IOPS)),
		Throughput:               awsapi.Some(int32(s.Throughput)),
		VolumeInitializationRate: awsapi.Some(int32(s.InitializationRate)),
	}
	n := awsapi.NewImage{
		Name: &s.Name, Description: awsapi.Some(s.Description), Architecture: types.ArchitectureValues(s.Architecture),
		BootMode: types.BootModeValues(s.BootMode), TpmSupport: types.TpmSupportValues(s.TPM), RootDeviceName: &device,
		UefiData:            awsapi.Some(strings.Join(strings.Fields(s.UEFIData), "")),
		BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: &device, Ebs: &root}},
		TagSpecifications:   awsapi.Tagged(types.ResourceTypeImage, s.Tags),
	}
	if s.SRIOV { // for instance types that have the driver ixgbevf
		n.SriovNetSupport = new("simple")
	}
	if s.IMDS != imdsOptional { // tokens, with a hop limit of 2
		n.ImdsSupport = types.ImdsSupportValuesV20
	}
	r.result.Image, err = r.aws.Register(ctx, n)
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
	c := awsapi.Copy{Name: r.Spec.Name, Description: r.Spec.Description, Encrypted: r.Spec.Encrypt || named, Key: key,
		Tags: r.Spec.Tags}
	// The same copy of the same import has the same token, also after a crash.
	c.Token = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %s %s %+v", r.result.Upload.Token, a.Region,
		r.result.Image.ID, c)))
	*made, err = a.CopyFrom(ctx, r.aws.Region, r.result.Image.ID, c)
	return err
}

// finish shares and deprecates an AMI.
func (r *run) finish(ctx context.Context, a *awsapi.AWS, i awsapi.Image) error {
	a, s := a.ForNew(), r.Spec
	type one = types.LaunchPermission
	with := slices.Concat(
		show.Each(s.Users, func(id string) one { return one{UserId: &id} }),
		show.Each(s.Groups, func(name string) one { return one{Group: types.PermissionGroup(name)} }),
		show.Each(s.Organizations, func(arn string) one { return one{OrganizationArn: &arn} }),
		show.Each(s.Units, func(arn string) one { return one{OrganizationalUnitArn: &arn} }))
	if err := a.Share(ctx, i, with, s.SnapshotUsers); err != nil {
		return err
	}
	at, err := s.deprecation()
	if err != nil || at.IsZero() {
		return err
	}
	return a.Deprecate(ctx, i.ID, at)
}

// replaced is a file with what registers the replaced AMIs again, from the moment before
// their deregistration until the import is over. One run uses it at a time: the upload
// has locked the journal.
type replaced struct {
	path    string
	mutex   *sync.Mutex // regions are copied at the same time
	recipes map[string]awsapi.Recipe
}

// replacedSuffix ends the name of the file.
const replacedSuffix = ".replaced.json"

// readReplaced reads the file that an import left, if there is one.
func readReplaced(path string) (replaced, error) {
	r := replaced{path, &sync.Mutex{}, map[string]awsapi.Recipe{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r.recipes)
	}
	if err != nil {
		return r, fmt.Errorf("reading which AMIs an interrupted import has replaced: %s: %w", path, err)
	}
	return r, nil
}

// gone are the recipes of AMIs that are deregistered, in the order of regions.
func (r replaced) gone() []awsapi.Recipe {
	var all []awsapi.Recipe
	for _, region := range slices.Sorted(maps.Keys(r.recipes)) {
		if one := r.recipes[region]; one.Restored == "" {
			all = append(all, one)
		}
	}
	return all
}

// of is the recipe of a region. Without one, it has no image.
func (r replaced) of(region string) awsapi.Recipe {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.recipes[region]
}

// note changes what registers the AMI of a region again; nil is nothing.
func (r replaced) note(region string, recipe *awsapi.Recipe) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if recipe != nil {
		r.recipes[region] = *recipe
	} else {
		delete(r.recipes, region)
	}
	if len(r.recipes) == 0 {
		return r.forget()
	}
	text, err := json.MarshalIndent(r.recipes, "", "  ")
	if err == nil {
		err = surface.Replace(r.path, append(text, '\n'), nil)
	}
	if err != nil {
		return fmt.Errorf("writing which AMIs the import replaces to %s: %w", r.path, err)
	}
	return nil
}

func (r replaced) forget() error {
	if err := os.Remove(r.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the file with the replaced AMIs: %w", err)
	}
	return nil
}

// replace deregisters the AMI that has the name. Its snapshots stay until the new AMI and
// its copies are there.
func (r *run) replace(ctx context.Context, a *awsapi.AWS) error {
	old := r.named[a.Region]
	if old.ID == "" {
		return nil
	}
	recipe, err := a.Recipe(ctx, old.ID)
	switch before := r.replaced.of(a.Region); {
	case awsapi.IsGone(err): // by an import that was killed, or meanwhile
		return nil
	case err != nil:
		return err
	case before.Restored == old.ID:
		recipe.Earlier, recipe.EarlierSnapshots = append(before.Earlier, before.Image), before.EarlierSnapshots
	case before.Image != "" && before.Restored == "": // by the import that made this AMI, and was cut
		recipe.EarlierSnapshots = append(before.EarlierSnapshots, before.Snapshots...)
	}
	if err := r.replaced.note(a.Region, &recipe); err != nil {
		return err
	}
	r.Say("deregistering %s in %s, which has the name %s; its snapshots stay until the end, and %s says how to "+
		"register it again", old.ID, a.Region, old.Name, r.replaced.path)
	err = a.Deregister(ctx, old.ID)
	if awsapi.IsGone(err) {
		return nil
	}
	if awsapi.IsUnchanged(err) { // AWS refuses, and the AMI is there
		return errors.Join(err, r.replaced.note(a.Region, nil))
	}
	return err
}

// restore registers a replaced AMI again.
func (r *run) restore(ctx context.Context, recipe awsapi.Recipe) error {
	r.Say("registering %s in %s again", recipe.Image, recipe.Region)
	i, err := r.aws.In(recipe.Region).Restore(ctx, recipe)
	if err != nil {
		return fmt.Errorf("registering the old AMI %s in %s again from its snapshots %s, as %s says: %w",
			recipe.Image, recipe.Region, strings.Join(recipe.Snapshots, ", "), r.replaced.path, err)
	}
	if i.ID != recipe.Image {
		r.Say("the old AMI %s in %s is registered again with a new ID, %s", recipe.Image, recipe.Region, i.ID)
	}
	recipe.Restored = i.ID
	return r.replaced.note(recipe.Region, &recipe)
}

// removeReplaced deletes the snapshots of the replaced AMIs, if that is wanted.
func (r *run) removeReplaced(ctx context.Context) error {
	for _, recipe := range r.replaced.gone() {
		for _, id := range append(recipe.EarlierSnapshots, recipe.Snapshots...) {
			// an import that was killed may have registered this snapshot
			if !r.Spec.ForceDeleteSnapshot || id == r.result.Upload.Snapshot.ID {
				continue
			}
			err := r.aws.In(recipe.Region).RemoveSnapshot(ctx, id)
			if awsapi.IsInUse(err) && ctx.Err() == nil { // an interrupted wait goes on in the next import
				r.Say("the snapshot %s of the old AMI %s stays: %v", id, recipe.Image, err)
			} else if err != nil {
				return err
			}
		}
	}
	return r.replaced.forget()
}

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
		return errors.Join(append(errs, fmt.Errorf("%s and the snapshot %s stay, because an AMI was replaced: the "+
			"same import goes on with them; %s says how to register the old AMI again",
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
		if i, err := r.aws.Named(ctx, r.Spec.Name); err == nil &&
			slices.Contains(i.Snapshots, r.result.Upload.Snapshot.ID) {
			r.result.Image = i
		}
	}
	return slices.DeleteFunc(append([]awsapi.Image{r.result.Image}, r.result.Copies...),
		func(i awsapi.Image) bool { return i.ID == "" })
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
	remove(&r.result.Image, func(ctx context.Context, a *awsapi.AWS, i awsapi.Image) error {
		return deregister(ctx, a.ForNew(), i)
	})
	r.result.Copies = slices.DeleteFunc(r.result.Copies, func(i awsapi.Image) bool { return i.ID == "" })
	uploaded := r.result.Upload.Snapshot.ID
	if r.Spec.Keep || keep {
		return errors.Join(append(errs, fmt.Errorf("the snapshot %s stays: the same import uploads nothing again",
			uploaded))...)
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
