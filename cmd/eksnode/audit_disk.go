//go:build !agent

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/build/diskbuild"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// auditedDisk is the disk of an audit: a disk image, or that of an AMI or a snapshot.
type auditedDisk struct {
	*source             // nil where no disk is given
	file, ami, snapshot string
	partition           int

	aws   awsapi.Options
	local provisioner.Local
	keep  bool

	// made is the manifest of the audited image; with whole, it lists everything.
	made  manifest.Manifest
	whole bool
}

// diskFlags adds the flags of disks to the command audit. The function checks the flags.
func diskFlags(cmd *cobra.Command) func(*cobra.Command) (diskAudit, error) {
	var d auditedDisk
	d.placeFlags(cmd, awsapi.AuditPolicy)
	return func(cmd *cobra.Command) (diskAudit, error) {
		if err := d.check(cmd); err != nil || !d.isGiven() {
			return nil, err
		}
		return d.audit, nil
	}
}

// placeFlags adds the flags of a command that does something to a disk.
func (d *auditedDisk) placeFlags(cmd *cobra.Command, policy func(awsapi.Scope) (string, error)) {
	bind(cmd, targets{"disk": &d.file, "ami": &d.ami, "snapshot": &d.snapshot})
	forms(cmd, map[string]func(string) error{
		"ami":      func(text string) error { _, err := snapshot.ParseAMI(text); return err },
		"snapshot": func(text string) error { _, err := snapshot.ParseSnapshot(text); return err },
	})
	partitionFlag(cmd, &d.partition)
	d.flags(cmd)
	policyFlag(cmd, anywhere(policy))
}

// partitionFlag adds --partition. Without the flag, the number is 0.
func partitionFlag(cmd *cobra.Command, number *int) {
	bind(cmd, targets{"partition": number})
	forms(cmd, map[string]func(string) error{"partition": func(text string) error {
		if n, err := strconv.Atoi(text); err == nil && n < 1 {
			return fmt.Errorf("partitions have numbers from 1, not %d", n)
		}
		return nil
	}})
}

// sourceFlags adds the flags of a command whose argument names the disk.
func sourceFlags(cmd *cobra.Command, policy func(awsapi.Scope) (string, error)) *auditedDisk {
	var d auditedDisk
	d.flags(cmd)
	policyFlag(cmd, anywhere(policy))
	return &d
}

func (d *auditedDisk) flags(cmd *cobra.Command) {
	bind(cmd, targets{"keep-disk": &d.keep})
	options(cmd.Flags(), &d.local, "cache_folder")
	awsFlags(cmd, &d.aws)
}

func (d *auditedDisk) choose(cmd *cobra.Command, arg string) (err error) {
	d.source, err = parseSource(arg)
	if set := given(cmd, "cache-folder", "keep-disk"); err == nil && d.cloud == nil && len(set) > 0 {
		err = fmt.Errorf("%s has no effect on a disk image", set[0])
	}
	return err
}

// options are those of AWS for the region of the disk.
func (d *auditedDisk) options() awsapi.Options {
	o := d.aws
	if d.cloud != nil {
		o.Region = cmp.Or(o.Region, d.cloud.Region)
	}
	return o
}

func (d *auditedDisk) isGiven() bool { return d.source != nil }

func (d *auditedDisk) check(cmd *cobra.Command) error {
	places := given(cmd, "root", "disk", "ami", "snapshot")
	if len(places) > 1 && places[0] == "--root" && places[1] == "--disk" {
		return errors.New("--disk and --root exclude each other: name a disk image, or the folder where one is mounted")
	}
	if name := cmp.Or(d.ami, d.snapshot); name != "" {
		cloud, err := snapshot.ParseNamed(name)
		if err != nil {
			return err
		}
		d.source = &source{arg: name, cloud: &cloud}
	} else if d.file != "" {
		d.source = &source{arg: d.file, path: d.file}
	}
	switch {
	case len(places) > 1:
		return fmt.Errorf("%s exclude each other: an audit has one place", strings.Join(places, " and "))
	case d.partition > 0 && !d.isGiven():
		return errors.New("--partition has no effect without --disk, --ami or --snapshot")
	case d.ami == "" && d.snapshot == "":
		return onlyWith(cmd, "ami or --snapshot", append([]string{"cache-folder", "keep-disk"}, awsFlagNames...)...)
	}
	return nil
}

// audit audits the disk. Whatever can fail without the disk of an AMI or a snapshot
// fails before the download.
func (d *auditedDisk) audit(cmd *cobra.Command, spec scrub.Spec) (r plan.Report, err error) {
	if d.cloud == nil {
		return d.auditFile(cmd.Context(), d.path, spec)
	}
	if err := mayMount("auditing " + d.cloud.ID); err != nil {
		return r, err
	}
	if d.volume, err = d.cloud.Locate(cmd.Context(), d.aws); err != nil {
		return r, err
	}
	if i := d.volume.Image; i.Platform == "windows" {
		return r, fmt.Errorf("auditing the image %s: the image is for Windows, and the rules are for Linux", i.ID)
	}
	if r, err = d.auditVolume(cmd, spec); err != nil {
		err = d.explain("auditing", err)
	}
	return r, err
}

func (d *auditedDisk) auditFile(ctx context.Context, path string, spec scrub.Spec) (plan.Report, error) {
	return diskaudit.Audit{Root: d.partition, Spec: spec, Manifest: &d.made, Whole: d.whole}.File(ctx, path)
}

// auditChild runs the part of an audit that needs a process of its own.
func auditChild(ctx context.Context) (code int, child bool) {
	return diskbuild.Child(ctx, buildInside)
}

// fetch gets the disk of the volume, from the cache or from AWS.
func (d *auditedDisk) fetch(cmd *cobra.Command) (*snapshot.Disk, error) {
	m := newMeter(cmd.ErrOrStderr())
	defer m.end()
	cache, err := diskCache(d.local, m)
	if err != nil {
		return nil, err
	}
	return cache.Get(cmd.Context(), d.volume.AWS, d.volume.Snapshot)
}

func (d *auditedDisk) auditVolume(cmd *cobra.Command, spec scrub.Spec) (r plan.Report, err error) {
	volume := d.volume
	kept, err := d.fetch(cmd)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, kept.Close(d.keep)) }()
	if d.keep {
		newPrinter(cmd.ErrOrStderr()).line("disk: %s", kept.Path)
	}
	if r, err = d.auditFile(cmd.Context(), kept.Path, spec); err != nil {
		return r, err
	}
	m := &r.Machine
	m.Disk, m.AMI, m.Snapshot, m.Region = "", volume.Image.ID, volume.Snapshot, volume.AWS.Region
	if captured, err := volume.AWS.Captured(cmd.Context(), volume.Image); err != nil {
		r.Warnings = append(r.Warnings, "whether the AMI comes from an instance is unknown: "+err.Error())
	} else if captured.ID != "" {
		r.Warnings = append(r.Warnings, fromInstance(volume.Image, captured))
	}
	for _, other := range volume.Others {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the volume %s (%s) was not audited: only the root volume %s "+
			"was; audit the other one with --snapshot", other.Name, other.Snapshot, volume.Image.RootDevice))
	}
	return r, nil
}
