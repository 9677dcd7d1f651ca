// Package disk is the Packer builder `eksnode-disk`: it makes a disk image of a cloud
// image, without a machine. Provisioners work in a sandbox of the mounted disk.
package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/packer-plugin-sdk/common"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/build/diskbuild"
	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// Config holds the fields of a `source "eksnode-disk"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	access.Config       `mapstructure:",squash"`
	diskbuild.Spec      `mapstructure:",squash"`

	// Cache folder for base images. Defaults to `eksnode/assets` in the user's cache
	// folder.
	CacheFolder string `mapstructure:"cache_folder"`
}

// Builder implements packersdk.Builder.
type Builder struct{ validate.Block[Config] }

// Prepare decodes and checks the fields, and joins all problems.
func (b *Builder) Prepare(raws ...any) (generated, warnings []string, err error) {
	if err := b.DecodeRendered("eksnode-disk", raws...); err != nil {
		return nil, nil, err
	}
	paths := errors.Join(validate.Home("base", &b.Config.Base), validate.Home("image", &b.Config.Image),
		validate.Home("cache_folder", &b.Config.CacheFolder))
	return nil, nil, validate.All(paths, b.Config.Config.Prepare(), b.Config.checkKnown())
}

// checkKnown returns the faults of the fields, except of those that are not known yet.
func (c *Config) checkKnown() error {
	s := c.Spec
	if validate.IsUnknown(s.Base) {
		s.Base = "/unknown"
	}
	if validate.IsUnknown(s.Checksum) {
		s.Checksum = strings.Repeat("0", 64)
	}
	if validate.IsUnknown(s.Image) {
		s.Image = "unknown.raw"
	}
	for _, option := range []*string{&s.FileSystem, &s.Arch} {
		if validate.IsUnknown(*option) {
			*option = ""
		}
	}
	return s.Validate()
}

// Run implements packersdk.Builder. The artifact is the disk image. After a failure there
// is none: the copy of the base image has no name until its end.
func (b *Builder) Run(ctx context.Context, ui packersdk.Ui, hook packersdk.Hook) (packersdk.Artifact, error) {
	open, parent, err := b.open(ctx, ui)
	if err != nil {
		return nil, err
	}
	generated := map[string]any{"ID": b.Config.Image, "PackerRunUUID": os.Getenv("PACKER_RUN_UUID"),
		"ConnType": "sandbox"}
	comm := &communicator{open}
	if err := hook.Run(ctx, packersdk.HookProvision, ui, comm, generated); err != nil {
		// The block error-cleanup-provisioner.
		cleaning := hook.Run(context.WithoutCancel(ctx), packersdk.HookCleanupProvision, ui, comm, generated)
		_, ending := open.Finish(false)
		return nil, errors.Join(err, cleaning, ending)
	}
	ui.Say("Unmounting the disk and writing " + b.Config.Image)
	notes, err := open.Finish(ctx.Err() == nil)
	for _, note := range notes {
		ui.Say(note)
	}
	if err := errors.Join(err, context.Cause(ctx)); err != nil {
		return nil, err
	}
	return &Artifact{b.Config.Image, generated, parent}, nil
}

// open finds the base image, and mounts a copy. Provisioners stop when ctx ends, and then
// Run ends the copy.
func (b *Builder) open(ctx context.Context, ui packersdk.Ui) (open *diskbuild.Opened, parent string, err error) {
	build := diskbuild.Build{Spec: b.Config.Spec, Force: b.Config.PackerForce, Progress: os.Stderr}
	if err := build.Ready(); err != nil {
		return nil, "", err
	}
	cache, err := provisioner.Local{CacheFolder: b.Config.CacheFolder}.Cache()
	if err != nil {
		return nil, "", err
	}
	meter, name := access.NewMeter(ui), build.Base
	if build.IsCloud() {
		kept, root, err := build.Download(ctx, b.Config.Config.Options, meter.Cache(cache))
		if err != nil {
			return nil, "", err
		}
		defer kept.Close(true)
		build.File, parent = kept.Path, root.AWS.Region+":"+cmp.Or(root.Image.ID, root.Snapshot)
	} else {
		progress := func(done, total int64) { meter.Print(done, done, total) }
		build.File, name, err = build.Find(ctx, cache, ui.Say, progress)
	}
	if err != nil {
		return nil, "", err
	}
	ui.Say("Copying and mounting " + name)
	open, err = build.Open(context.WithoutCancel(ctx))
	return open, parent, err
}

// StateParent is the name of the state with the AMI or the snapshot of the base image, such
// as eu-west-1:ami-0123456789abcdef0. The AMI of the disk can have it as parent.
const StateParent = "eksnode_parent"

const builderID = "eksnode.disk"

// Artifact is a disk image. It implements packersdk.Artifact.
type Artifact struct {
	image string
	// generated is the data of the build, for post-processors.
	generated any
	// parent is the AMI or the snapshot of the base image with its region, or empty.
	parent string
}

// BuilderId implements packersdk.Artifact.
func (*Artifact) BuilderId() string { return builderID }

// Files implements packersdk.Artifact.
func (a *Artifact) Files() []string { return []string{a.image} }

// Id implements packersdk.Artifact.
func (a *Artifact) Id() string { return a.image }

// String implements packersdk.Artifact.
func (a *Artifact) String() string { return "the disk image " + a.image }

// State implements packersdk.Artifact.
func (a *Artifact) State(name string) any {
	switch name {
	case "generated_data":
		return a.generated
	case StateParent:
		return a.parent
	}
	return nil
}

// Destroy removes the disk image.
func (a *Artifact) Destroy() error {
	if err := os.Remove(a.image); err != nil {
		return fmt.Errorf("removing the disk image: %w", err)
	}
	return nil
}
