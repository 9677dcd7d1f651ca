package amiimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
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
	// Say prints a line for a person who waits.
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
	if e.Report.Error != "" {
		return "the audit of the disk failed: " + e.Report.Error
	}
	return "the audit of the disk found what an image must not carry; scrub the machine before its capture"
}

// run is a running import.
type run struct {
	Import
	image  *disk.Image
	layout *disk.Layout
	aws    *awsapi.AWS
	result Result
}

// Run imports the disk image. After a failure, it deletes what it made.
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
	r := &run{Import: i, image: image}
	if err := r.prepare(ctx); err != nil || i.DryRun {
		return r.result, err
	}
	if err := r.upload(ctx); err != nil {
		return r.result, err
	}
	if err := r.register(ctx); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoMost)
		defer cancel()
		return r.result, errors.Join(err, r.undo(undo))
	}
	return r.result, nil
}

// defaultFolder is the folder for journals and checksums.
func defaultFolder() (string, error) {
	home, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the folder for the journal of the upload: %w", err)
	}
	return filepath.Join(home, "eksnode", "ami-import"), nil
}

// undoMost is how long the removal of a failed import may take, also after Ctrl-C.
const undoMost = 2 * time.Minute

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
	if r.Spec.VolumeSize != 0 && int64(r.Spec.VolumeSize) < r.image.SizeGiB() {
		return fmt.Errorf("volume_size: the disk has %d GiB, so the volume cannot have %d", r.image.SizeGiB(), r.Spec.VolumeSize)
	}
	if r.aws, err = r.Open(ctx); err != nil {
		return err
	}
	return r.checkParent(ctx)
}

// gate audits the disk.
func (r *run) gate(ctx context.Context) error {
	effect := cmp.Or(scrub.Audit(r.Spec.Audit), scrub.AuditFails)
	if effect == scrub.AuditOff {
		return nil
	}
	report, err := diskaudit.Audit{Image: r.image, Layout: r.layout, Root: r.Spec.Partition, Spec: scrub.Spec{Skip: r.Spec.SkipRules}}.Run(ctx)
	if err != nil {
		return fmt.Errorf(`%w; with audit = "off", the disk is uploaded without an audit`, err)
	}
	r.result.Audit = &report
	if report.Result != plan.Clean && effect == scrub.AuditFails {
		return &AuditError{report}
	}
	return nil
}

// architectures are EC2's names of architectures, by Go's.
var architectures = map[string]string{"amd64": "x86_64", "arm64": "arm64"}

// platform fills in the architecture and the boot mode.
func (r *run) platform() error {
	found := r.layout.Boot.Arch
	if found == "" && r.result.Audit != nil {
		found = architectures[r.result.Audit.Machine.Arch]
	}
	switch {
	case r.Spec.Architecture == "" && found == "":
		return errors.New("ami_architecture: the disk does not show its architecture; set x86_64 or arm64")
	case r.Spec.Architecture == "":
		r.Spec.Architecture = found
	case found != "" && found != r.Spec.Architecture:
		return fmt.Errorf("ami_architecture: the disk is for %s, not for %s", found, r.Spec.Architecture)
	}
	mode := r.layout.Boot.Mode()
	switch {
	case r.Spec.BootMode == "" && mode == "":
		return errors.New("boot_mode: the disk has no boot loader that BIOS or UEFI finds; set boot_mode if that is wrong")
	case r.Spec.BootMode == "":
		r.Spec.BootMode = mode
	case mode == "":
		r.Say("boot_mode: no boot loader was found on the disk; the AMI has the boot mode %s, as set", r.Spec.BootMode)
	case r.Spec.BootMode == "legacy-bios" && !r.layout.Boot.BIOS, strings.HasPrefix(r.Spec.BootMode, "uefi") && !r.layout.Boot.UEFI:
		return fmt.Errorf("boot_mode: the disk has no boot loader for %s", r.Spec.BootMode)
	}
	if r.Spec.TPM != "" && r.Spec.BootMode != "uefi" {
		return fmt.Errorf("tpm_support: a TPM needs the boot mode uefi, but the boot mode is %s; set boot_mode", r.Spec.BootMode)
	}
	return nil
}

// checkParent checks the rules for encryption and parents, before the upload
// (https://docs.aws.amazon.com/ebs/latest/userguide/ebsapis-using-encryption.html).
func (r *run) checkParent(ctx context.Context) error {
	if r.Spec.ParentAMI != "" {
		i, err := r.aws.Image(ctx, r.Spec.ParentAMI)
		if err != nil {
			return err
		}
		if len(i.Snapshots) == 0 {
			return fmt.Errorf("parent_ami: the image %s has no snapshot", i.ID)
		}
		r.Spec.ParentSnapshot = i.Snapshots[0]
	}
	if r.Spec.ParentSnapshot == "" {
		return nil
	}
	parent, err := r.aws.Snapshot(ctx, r.Spec.ParentSnapshot)
	if err != nil {
		return err
	}
	account, err := r.aws.Account(ctx)
	if err != nil {
		return err
	}
	byDefault, _, err := r.aws.DefaultEncryption(ctx)
	if err != nil {
		return err
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("parent_snapshot: the snapshot %s "+format, append([]any{parent.ID}, args...)...)
	}
	switch {
	case parent.State != awsapi.SnapshotCompleted:
		return wrong("is %s; only a completed snapshot can be a parent", parent.State)
	case parent.Owner != account:
		return wrong("belongs to the account %s; copy it with `aws ec2 copy-snapshot` first", parent.Owner)
	case byDefault && !parent.Encrypted:
		return wrong("is not encrypted, but the account encrypts new snapshots by default; leave the parent out, or copy it with `aws ec2 copy-snapshot --encrypted` first")
	case parent.Size > r.image.SizeGiB():
		return wrong("has %d GiB, but the disk only %d GiB", parent.Size, r.image.SizeGiB())
	}
	return nil
}

// upload uploads the disk.
func (r *run) upload(ctx context.Context) error {
	source, err := r.source()
	if err != nil {
		return err
	}
	u := snapshot.Upload{
		Description: r.Spec.Description, Tags: joined(r.Spec.Tags, r.Spec.SnapshotTags), Encrypted: r.Spec.Encrypt, Key: r.Spec.KMSKey,
		Parent: r.Spec.ParentSnapshot, Journal: filepath.Join(r.Folder, r.aws.Region+"-"+filepath.Base(r.Disk)+".journal"), Keep: r.Spec.Keep, Progress: r.Progress,
	}
	if err := os.MkdirAll(r.Folder, 0o700); err != nil {
		return fmt.Errorf("making the folder for the upload: %w", err)
	}
	if u.Parent != "" {
		if u.ParentSums, err = r.parentSums(ctx, source.Blocks); err != nil {
			return err
		}
	}
	if r.result.Upload, err = u.Run(ctx, r.aws, source); err != nil {
		return fmt.Errorf("uploading the disk %s: %w", r.Disk, err)
	}
	id := r.result.Upload.Snapshot.ID
	if err := r.result.Upload.Sums.Save(r.sumsFile(id), id); err != nil {
		r.Say("%v; an import with the parent %s will read the snapshot instead", err, id)
	}
	return nil
}

func (r *run) sumsFile(id string) string { return filepath.Join(r.Folder, id+".sums") }

// parentSums returns the checksums of the parent's blocks: from the file of the import
// that made it, or from the snapshot itself.
func (r *run) parentSums(ctx context.Context, blocks []int32) (snapshot.Sums, error) {
	sums, err := snapshot.LoadSums(r.sumsFile(r.Spec.ParentSnapshot), r.Spec.ParentSnapshot)
	if err == nil {
		return sums, nil
	}
	r.Say("reading the parent %s: %v", r.Spec.ParentSnapshot, err)
	return snapshot.ReadSums(ctx, r.aws, r.Spec.ParentSnapshot, blocks)
}

// source is the disk for the upload.
func (r *run) source() (snapshot.Source, error) {
	info, err := os.Stat(r.Disk)
	if err != nil {
		return snapshot.Source{}, err
	}
	path, err := filepath.Abs(r.Disk)
	if err != nil {
		return snapshot.Source{}, err
	}
	s := snapshot.Source{
		Identity: fmt.Sprintf("%s, %d bytes, changed %s", path, info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)), Size: r.image.SizeGiB(), Check: r.image.Check,
		Read: func(index int32, into []byte) error {
			at := int64(index) * disk.BlockSize
			if _, err := r.image.ReadAt(into, at); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			r.layout.ZeroFree(into, at)
			return nil
		},
	}
	for index := range r.layout.Blocks() {
		s.Blocks = append(s.Blocks, int32(index))
	}
	return s, nil
}

func joined(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, one := range all {
		maps.Copy(out, one)
	}
	return out
}

// sorted are the regions of the copies.
func (s Spec) sorted() []string { return slices.Compact(slices.Sorted(slices.Values(s.Regions))) }
