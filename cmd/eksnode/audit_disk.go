//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// auditedDisk is the disk image of an audit.
type auditedDisk struct {
	file      string
	partition int
}

func diskFlags(cmd *cobra.Command) *auditedDisk {
	var d auditedDisk
	cmd.Flags().StringVar(&d.file, "disk", "", "disk image to audit: raw, qcow2 or fixed VHD; it is mounted read-only, which needs root")
	cmd.Flags().IntVar(&d.partition, "partition", 0, "number of the root partition of --disk (default: found by its type, label or content)")
	return &d
}

// check checks the flags together.
func (d auditedDisk) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case given("disk") && given("root"):
		return errors.New("--disk and --root exclude each other: name a disk image, or the folder where one is mounted")
	case given("partition") && !given("disk"):
		return errors.New("--partition has no effect without --disk")
	case given("partition") && d.partition < 1:
		return fmt.Errorf("--partition %d: partitions have numbers from 1", d.partition)
	}
	return nil
}

func (d auditedDisk) audit(ctx context.Context, spec scrub.Spec) (plan.Report, error) {
	image, err := disk.Open(d.file)
	if err != nil {
		return plan.Report{}, err
	}
	defer image.Close()
	layout, err := image.Layout()
	if err != nil {
		return plan.Report{}, err
	}
	return diskaudit.Audit{Image: image, Layout: layout, Root: d.partition, Spec: spec}.Run(ctx)
}

// auditChild runs the part of an audit that needs a process of its own.
func auditChild(ctx context.Context) (code int, child bool) { return diskaudit.Child(ctx) }
