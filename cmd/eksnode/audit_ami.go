//go:build !agent

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// auditCloud audits the disk of an AMI or a snapshot. Whatever can fail without the
// disk fails before the download.
func (d *auditedDisk) auditCloud(cmd *cobra.Command, spec scrub.Spec) (r plan.Report, err error) {
	named, err := d.named()
	if err != nil {
		return r, err
	}
	if err := diskaudit.Ready(); err != nil {
		if errors.Is(err, diskaudit.ErrNeedsRoot) {
			err = fmt.Errorf("%w; sudo -E keeps the AWS credentials of the environment", err)
		}
		return r, fmt.Errorf("auditing %s: %w", named.id, err)
	}
	ctx := cmd.Context()
	a, err := named.open(ctx, d.aws)
	if err != nil {
		return r, err
	}
	volume, err := named.find(ctx, a)
	if err != nil {
		return r, err
	}
	if volume.image.Platform == "windows" {
		return r, fmt.Errorf("auditing the image %s: the image is for Windows, and the rules are for Linux", volume.image.ID)
	}
	r, err = d.auditVolume(cmd, volume, spec)
	if err != nil {
		return r, fmt.Errorf("auditing %s: %w", volume, volume.explain(err, "--cache-folder"))
	}
	return r, nil
}

// named is the AMI or the snapshot of the flags.
func (d *auditedDisk) named() (cloudDisk, error) {
	flag, text, parse := "--ami", d.ami, parseCloudAMI
	if d.snapshot != "" {
		flag, text, parse = "--snapshot", d.snapshot, parseCloudSnapshot
	}
	named, err := parse(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", flag, err)
	}
	return named, err
}

// auditVolume downloads and audits the disk.
func (d *auditedDisk) auditVolume(cmd *cobra.Command, volume rootVolume, spec scrub.Spec) (r plan.Report, err error) {
	m, said := newMeter(cmd.ErrOrStderr()), newPrinter(cmd.ErrOrStderr())
	cache, err := diskCache(d.local, m, func(format string, args ...any) { m.say(func() { said.line(format, args...) }) })
	if err != nil {
		return r, err
	}
	kept, err := cache.Get(cmd.Context(), volume.aws, volume.snapshot)
	m.end()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, kept.Close(d.keep)) }()
	if d.keep {
		said.line("disk: %s", kept.Path)
	}
	if r, err = d.auditFile(cmd.Context(), kept.Path, spec); err != nil {
		return r, err
	}
	r.Machine.Disk, r.Machine.AMI, r.Machine.Snapshot, r.Machine.Region = "", volume.image.ID, volume.snapshot, volume.aws.Region
	for _, other := range volume.others {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the volume %s (%s) was not audited: only the root volume %s was; audit the other one with --snapshot", other.Name, other.Snapshot, volume.image.RootDevice))
	}
	return r, nil
}
