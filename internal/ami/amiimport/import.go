// Package amiimport makes an AMI of a disk image, without an instance: it audits the
// disk, uploads what the disk uses as an EBS snapshot, and registers the AMI.
package amiimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
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
	// Manifest is that of the image, or empty.
	Manifest manifest.Manifest
	Disk     Disk
}

// Disk is what an import found on a disk.
type Disk struct {
	// Format is the format as qemu-img names it.
	Format string `json:"format"`
	// Size is the size of the disk, and Used what is not free, in bytes.
	Size int64 `json:"size"`
	Used int64 `json:"used"`
	// Blocks are the blocks of 512 KiB that travel.
	Blocks int `json:"-"`
	// VolumeGiB is the size of the snapshot's volume.
	VolumeGiB int64 `json:"volume_gib"`
	// Architecture and BootMode are those of the AMI.
	Architecture string `json:"architecture"`
	BootMode     string `json:"boot_mode"`
	// Digest is the content digest of the disk.
	Digest string `json:"digest"`
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

type run struct {
	Import
	image *disk.Image
	aws   *awsapi.AWS
	// journal is the path of the upload's journal.
	journal string
	// named are the AMIs that have the name already, by region: those to replace, or those
	// of an import that was killed.
	named map[string]awsapi.Image
	// replaced are the AMIs that were deregistered, by region.
	replaced replaced
	// signer signs the statement; nil without one.
	signer *signer
	result Result
}

// Run imports the disk image. After a failure, it deletes what it made, unless an AMI
// was replaced: then there is always one whole AMI, or what makes one.
func (i Import) Run(ctx context.Context) (Result, error) {
	err := i.Spec.Validate()
	if err != nil {
		return Result{}, err
	}
	if i.Folder == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return Result{}, fmt.Errorf("finding the folder for the journal of the upload: %w", err)
		}
		i.Folder = filepath.Join(home, "eksnode", "ami-import")
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
	for _, note := range r.image.Layout.Notes {
		r.Say("%s", note)
	}
	if err := r.gate(ctx); err != nil {
		return err
	}
	r.result.Disk = Disk{Format: r.image.Format(), Size: r.image.Size(), Used: r.image.Layout.UsedBytes(),
		VolumeGiB: r.image.SizeGiB()}
	for range r.image.Layout.Blocks() {
		r.result.Disk.Blocks++
	}
	if err := errors.Join(r.architecture(), r.bootMode()); err != nil {
		return err
	}
	r.result.Disk.Architecture, r.result.Disk.BootMode = r.Spec.Architecture, r.Spec.BootMode
	if err := r.identify(ctx); err != nil {
		return err
	}
	if err := errors.Join(r.Spec.checkSize(r.image.SizeGiB()), r.Spec.checkDeprecation(time.Now())); err != nil {
		return err
	}
	if r.aws, err = r.Open(ctx); err != nil {
		return err
	}
	if r.signer, err = r.Spec.open(ctx, r.aws); err != nil {
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
	return r.image.Check()
}

// gate audits the disk, and takes the tags from its manifest.
func (r *run) gate(ctx context.Context) error {
	effect := cmp.Or(scrub.Audit(r.Spec.Audit), scrub.AuditFails)
	if effect == scrub.AuditOff {
		return nil
	}
	made := &r.result.Manifest
	report, err := diskaudit.Audit{
		Image: r.image, Root: r.Spec.Partition,
		Spec:     scrub.Spec{Skip: r.Spec.SkipRules, Node: scrub.Node(r.Spec.Node)},
		Manifest: made, Whole: r.Spec.StatementKey != "",
	}.Run(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return surface.Errorf("%w; with %s, the disk is uploaded without an audit", err,
			surface.Name("audit").Is(string(scrub.AuditOff)))
	}
	r.result.Audit = &report
	if report.Result != plan.Clean && effect == scrub.AuditFails {
		return &AuditError{report}
	}
	if made.Schema != "" {
		r.Spec.Tags = joined(made.Tags(), r.Spec.Tags)
	}
	return nil
}

// identify adds the tag with the digest of the disk.
func (r *run) identify(ctx context.Context) (err error) {
	if r.result.Audit != nil {
		r.result.Disk.Digest = r.result.Audit.Machine.Digest
	} else if r.result.Disk.Digest, err = r.image.Digest(ctx); err != nil {
		return err
	}
	r.Spec.Tags = joined(r.Spec.Tags, map[string]string{awsapi.DigestTag: r.result.Disk.Digest})
	if err := checkTags(joined(r.Spec.Tags, r.Spec.SnapshotTags)); err != nil {
		return fmt.Errorf("tags with those of the image's manifest and its digest: %w", err)
	}
	return nil
}

// Spec describes the AMI. Fields are named as those of Packer's builder amazon-ebs.
// The comments of the fields are the reference of the post-processor and the help of
// the command.
type Spec struct {
	// Name of the AMI, unique in the account and region.
	Name string `mapstructure:"ami_name" required:"true"`
	// Description of the AMI.
	Description string `mapstructure:"ami_description"`
	// Effect of an audit of the disk before the upload: `fail`, `warn` or `off`. With
	// `fail`, a disk with findings is not uploaded. The audit needs root. Defaults to
	// `fail`.
	Audit string `mapstructure:"audit"`
	// Rules, phases or groups that the audit skips.
	SkipRules []string `mapstructure:"skip_rules"`
	// Effect of the audit's rules for nodes: `yes`, `no` for a disk of any Linux that is
	// no node, or `auto` for a disk that may be one. Defaults to `yes`.
	Node string `mapstructure:"node"`
	// Number of the root partition. Defaults to the partition with the type, label or
	// content of a root.
	Partition int `mapstructure:"root_partition"`
	// Architecture, `x86_64` or `arm64`. Defaults to that of the boot loader or of the
	// programs on the disk.
	Architecture string `mapstructure:"ami_architecture"`
	// Boot mode, `legacy-bios`, `uefi` or `uefi-preferred`. Defaults to what the disk
	// can boot.
	BootMode string `mapstructure:"boot_mode"`
	// UEFI variable store in Base64, such as the output of `uefivars`. Needs a boot mode
	// with UEFI.
	UEFIData string `mapstructure:"uefi_data"`
	// TPM of instances, `v2.0`. Needs a disk that boots with UEFI. The boot mode is then
	// `uefi`.
	TPM string `mapstructure:"tpm_support"`
	// Metadata service of instances, `v2.0` or `optional`. With `v2.0`, requests need a
	// token, and the hop limit is 2. A launch template may change both. Defaults to
	// `v2.0`.
	IMDS string `mapstructure:"imds_support"`
	// Set the SR-IOV attribute, for instance types older than ENA.
	SRIOV bool `mapstructure:"sriov_support"`
	// Name of the root device. Defaults to `/dev/xvda`.
	RootDevice string `mapstructure:"root_device_name"`
	// Size of the root volume in GiB. Defaults to the size of the disk.
	VolumeSize int `mapstructure:"volume_size"`
	// Type of the root volume: `gp2`, `gp3`, `io1`, `io2` or `standard`. Defaults to
	// `gp3`.
	VolumeType string `mapstructure:"volume_type"`
	// IOPS of the root volume. The types `io1` and `io2` need a number.
	IOPS int `mapstructure:"iops"`
	// Throughput of the root volume in MiB/s, from 125 to 2000, for the type `gp3`.
	Throughput int `mapstructure:"throughput"`
	// Rate in MiB/s, from 100 to 300, at which EC2 loads a new root volume from the
	// snapshot.
	InitializationRate int `mapstructure:"volume_initialization_rate"`
	// Encrypt the snapshot and the copies.
	Encrypt bool `mapstructure:"encrypt_boot"`
	// ID, alias or ARN of the KMS key for the snapshot, with `encrypt_boot`. Defaults to
	// the account's default key.
	KMSKey string `mapstructure:"kms_key_id"`
	// Snapshot with blocks that need not be uploaded, such as that of the last import.
	// The new snapshot is encrypted as the parent is.
	ParentSnapshot string `mapstructure:"parent_snapshot"`
	// AMI whose root snapshot is the parent.
	ParentAMI string `mapstructure:"parent_ami"`
	// Tags of the AMI and the snapshot, in addition to those of the data source
	// eksnode-contents, which come from the image.
	Tags map[string]string `mapstructure:"tags"`
	// Additional tags of the snapshot.
	SnapshotTags map[string]string `mapstructure:"snapshot_tags"`
	// Regions to copy the AMI to.
	Regions []string `mapstructure:"ami_regions"`
	// IDs, aliases or ARNs of the KMS keys for encrypted copies, by region. An empty
	// text is the region's default key.
	RegionKeys map[string]string `mapstructure:"region_kms_key_ids"`
	// Accounts that may start instances of the AMI.
	Users []string `mapstructure:"ami_users"`
	// Groups that may start instances of the AMI. Only `all` exists, which makes the AMI
	// public.
	Groups []string `mapstructure:"ami_groups"`
	// ARNs of organizations that may start instances of the AMI.
	Organizations []string `mapstructure:"ami_org_arns"`
	// ARNs of organizational units that may start instances of the AMI.
	Units []string `mapstructure:"ami_ou_arns"`
	// Accounts that may use the snapshot.
	SnapshotUsers []string `mapstructure:"snapshot_users"`
	// Time at which EC2 deprecates the AMI and its copies, such as
	// `2027-01-31T00:00:00Z`.
	DeprecateAt string `mapstructure:"deprecate_at"`
	Signing     `mapstructure:",squash"`
	// Replace your AMI of the same name, in every region of the new AMI. If the new AMI
	// cannot be registered, the old one is registered again, with another ID.
	ForceDeregister bool `mapstructure:"force_deregister"`
	// Delete the snapshots of the AMIs that `force_deregister` replaces, as the last step.
	ForceDeleteSnapshot bool `mapstructure:"force_delete_snapshot"`
	// Keep the pending snapshot after a failure, so that the next run continues the
	// upload.
	Keep bool `mapstructure:"keep_snapshot"`
}

// architectures are EC2's names of architectures, by Go's.
var architectures = map[string]string{"amd64": x86, "arm64": arm}

// architecture finds the architecture: the UEFI loader shows it, and /bin/sh. A disk
// that only a BIOS boots is for x86.
func (r *run) architecture() error {
	const field = surface.Name("ami_architecture")
	loader, programs := r.image.Layout.Boot.Arch, ""
	if r.result.Audit != nil {
		programs = architectures[r.result.Audit.Machine.Arch]
	}
	if loader == "" && r.image.Layout.Boot.BIOS && !r.image.Layout.Boot.UEFI {
		loader = x86
	}
	found := cmp.Or(programs, loader)
	switch {
	case programs != "" && loader != "" && programs != loader:
		return surface.Errorf("%s: the boot loader of the disk is for %s, but its programs are for %s", field, loader,
			programs)
	case r.Spec.Architecture == "" && found == "":
		return surface.Errorf("%s: the disk does not show its architecture; set %s or %s", field, x86, arm)
	case found != "" && r.Spec.Architecture != "" && found != r.Spec.Architecture:
		return surface.Errorf("%s: the disk is for %s, not for %s", field, found, r.Spec.Architecture)
	}
	r.Spec.Architecture = cmp.Or(r.Spec.Architecture, found)
	return nil
}

func (r *run) bootMode() error {
	const field = surface.Name("boot_mode")
	boot, mode := r.image.Layout.Boot, r.image.Layout.Boot.Mode()
	if mode == both && (r.Spec.TPM != "" || r.Spec.Architecture == arm) {
		mode = uefi
	}
	switch set := r.Spec.BootMode; {
	case set == "" && mode == "":
		return surface.Errorf("%s: the disk has no boot loader that BIOS or UEFI finds, so instances would not "+
			"start; set a boot mode if that is wrong", field)
	case set == "":
		r.Spec.BootMode = mode
	case mode == "":
		r.Say("no boot loader was found on the disk; the AMI gets the boot mode %s", set)
	case set == bios && !boot.BIOS, strings.HasPrefix(set, uefi) && !boot.UEFI, set == both && !boot.BIOS:
		return surface.Errorf("%s: the disk boots with %s, not with %s", field, r.image.Layout.Boot.Mode(), set)
	}
	var f surface.Faults
	r.Spec.checkBoot(&f)
	return f.Err()
}
