package amiimport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
)

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
	err := snapshot.Replace(r.path, func(w io.Writer) error {
		to := json.NewEncoder(w)
		to.SetIndent("", "  ")
		return to.Encode(r.recipes)
	})
	if err != nil {
		return fmt.Errorf("writing which AMIs the import replaces to %s: %w", r.path, err)
	}
	return nil
}

// forget removes the file.
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
	r.Say("deregistering %s in %s, which has the name %s; its snapshots stay until the end, and %s says how to register it again", old.ID, a.Region, old.Name, r.replaced.path)
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
			if !r.Spec.ForceDeleteSnapshot || id == r.result.Upload.Snapshot.ID { // an import that was killed may have registered this snapshot
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
