package amiimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Import makes an AMI of a disk image.
type Import struct {
	Spec Spec
	// Disk is the path of the disk image.
	Disk string
	// Folder is for the journal of an upload and for the checksums of snapshots. The
	// default is eksnode/ami-import in the user's cache folder.
	Folder string
	// DryRun makes all checks, and then uploads nothing.
	DryRun bool
	// Open connects to AWS. It is called after all checks that need no AWS.
	Open func(ctx context.Context) (*awsapi.AWS, error)
	// Say prints a line for a person who waits. It may be called concurrently.
	Say func(format string, args ...any)
	// Progress is called after each block of the upload. It may be nil.
	Progress func(snapshot.Progress)
}

// Result is what an import made.
type Result struct {
	// Image is the AMI in the configured region, and Copies are those in the others.
	Image  awsapi.Image
	Copies []awsapi.Image
	Upload snapshot.Result
	// Audit is the report of the audit, or nil.
	Audit *plan.Report
	Disk  Disk
	// Parent is the ID of the parent snapshot, or empty.
	Parent string
}

// Disk is what an import found on a disk.
type Disk struct {
	// Format is the format as qemu-img names it.
	Format string
	// Size is the size of the disk, and Used what is not free, in bytes.
	Size, Used int64
	// Blocks are the blocks of 512 KiB that travel.
	Blocks int
	// VolumeGiB is the size of the snapshot's volume.
	VolumeGiB int64
	// Architecture and BootMode are those of the AMI.
	Architecture, BootMode string
}

// AuditError means that the audit kept the disk from being uploaded.
type AuditError struct{ Report plan.Report }

func (e *AuditError) Error() string {
	switch {
	case e.Report.Error != "":
		return "the audit of the disk failed: " + e.Report.Error
	case e.Report.Result == plan.Unknown:
		return "some checks of the audit could not run, so the disk may have what an image must not have"
	}
	return "the audit of the disk found what an image must not have; scrub the machine before its capture"
}

// run is a running import.
type run struct {
	Import
	image  *disk.Image
	layout *disk.Layout
	aws    *awsapi.AWS
	// journal is the path of the upload's journal.
	journal string
	// named are the AMIs that have the name already, by region: those to replace, or those
	// of an import that was killed.
	named map[string]awsapi.Image
	// replaced are the AMIs that were deregistered, by region.
	replaced replaced
	result   Result
}

// Run imports the disk image. After a failure, it deletes what it made, unless an AMI
// was replaced: then there is always one whole AMI, or what makes one.
func (i Import) Run(ctx context.Context) (Result, error) {
	err := i.Spec.Validate()
	if err != nil {
		return Result{}, err
	}
	if i.Folder == "" {
		if i.Folder, err = defaultFolder(); err != nil {
			return Result{}, err
		}
	}
	image, err := disk.Open(i.Disk)
	if err != nil {
		return Result{}, err
	}
	defer image.Close()
	r := &run{Import: i, image: image, named: map[string]awsapi.Image{}}
	if err := r.prepare(ctx); err != nil || i.DryRun {
		return r.result, err
	}
	if err := r.upload(ctx); err != nil {
		return r.result, err
	}
	if err := r.register(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoMost)
		defer cancel()
		return r.result, errors.Join(err, r.undo(undo))
	}
	return r.result, r.forget()
}

// undoMost is how long the removal of a failed import may take, also after Ctrl-C.
const undoMost = 4 * awsapi.Patience

// prepare makes every check that needs no upload.
func (r *run) prepare(ctx context.Context) (err error) {
	if r.layout, err = r.image.Layout(); err != nil {
		return err
	}
	for _, note := range r.layout.Notes {
		r.Say("%s", note)
	}
	if err := r.gate(ctx); err != nil {
		return err
	}
	r.result.Disk = Disk{Format: r.image.Format(), Size: r.image.Size(), Used: r.layout.UsedBytes(), VolumeGiB: r.image.SizeGiB()}
	for range r.layout.Blocks() {
		r.result.Disk.Blocks++
	}
	if err := r.platform(); err != nil {
		return err
	}
	r.result.Disk.Architecture, r.result.Disk.BootMode = r.Spec.Architecture, r.Spec.BootMode
	if err := errors.Join(r.Spec.checkSize(r.image.SizeGiB()), r.Spec.checkDeprecation(time.Now())); err != nil {
		return err
	}
	if r.aws, err = r.Open(ctx); err != nil {
		return err
	}
	if r.journal, err = r.journalPath(); err != nil {
		return err
	}
	if r.replaced, err = readReplaced(strings.TrimSuffix(r.journal, journalSuffix) + replacedSuffix); err != nil {
		return err
	}
	if err := r.checkAccount(ctx); err != nil {
		return err
	}
	r.result.Parent = r.Spec.ParentSnapshot
	return r.image.Check()
}

// gate audits the disk, and takes the tags from its manifest.
func (r *run) gate(ctx context.Context) error {
	effect := cmp.Or(scrub.Audit(r.Spec.Audit), scrub.AuditFails)
	if effect == scrub.AuditOff {
		return nil
	}
	var made manifest.Manifest
	report, err := diskaudit.Audit{
		Image: r.image, Layout: r.layout, Root: r.Spec.Partition, Spec: scrub.Spec{Skip: r.Spec.SkipRules}, Manifest: &made,
	}.Run(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return surface.Errorf("%w; with %s, the disk is uploaded without an audit", err, surface.Name("audit").Is(string(scrub.AuditOff)))
	}
	r.result.Audit = &report
	if report.Result != plan.Clean && effect == scrub.AuditFails {
		return &AuditError{report}
	}
	if made.Schema != "" {
		r.Spec.Tags = joined(made.Tags(), r.Spec.Tags)
	}
	if err := checkTags(joined(r.Spec.Tags, r.Spec.SnapshotTags)); err != nil {
		return fmt.Errorf("tags with those of the image's manifest: %w", err)
	}
	return nil
}
