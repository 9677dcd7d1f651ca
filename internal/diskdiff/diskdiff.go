// Package diskdiff compares two disks: blocks, then files, then the packages that own
// the files.
package diskdiff

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/diskaudit"
)

// Disk is one of the two disks.
type Disk struct {
	Image  *disk.Image
	Layout *disk.Layout
	// Root is the number of the partition to compare; 0 finds the root.
	Root int
}

// Open opens a disk image.
func Open(path string, root int) (Disk, error) {
	image, err := disk.Open(path)
	if err != nil {
		return Disk{}, err
	}
	layout, err := image.Layout()
	if err == nil {
		_, err = layout.Roots(root)
		if err != nil {
			err = fmt.Errorf("comparing the disk image %s: %w", path, err)
		}
	}
	if err != nil {
		return Disk{}, errors.Join(err, image.Close())
	}
	return Disk{image, layout, root}, nil
}

// Result is what differs between two disks.
type Result struct {
	Blocks Blocks `json:"blocks"`
	// Roots are the compared partitions, before and after.
	Roots    [2]Root   `json:"roots"`
	Packages []Package `json:"packages"`
	Files    []File    `json:"files"`
}

// None is the result for a disk and itself.
func None() Result { return Result{Packages: []Package{}, Files: []File{}} }

// Root is a compared partition.
type Root struct {
	Partition  int    `json:"partition"`
	FileSystem string `json:"file_system"`
	// Notes name what was not compared.
	Notes []string `json:"-"`
}

// Compare compares the files and packages of two disks. Folder is for temporary files;
// empty is the system's.
func Compare(ctx context.Context, before, after Disk, folder string) (Result, error) {
	lists, err := list(ctx, [2]Disk{before, after}, folder)
	for _, l := range lists {
		if l != nil {
			defer l.Close()
		}
	}
	if err != nil {
		return Result{}, err
	}
	var r Result
	for n, l := range lists {
		r.Roots[n] = Root{l.Partition, l.Kind, l.Notes}
	}
	r.Packages = packagesOf(lists[0].Packages, lists[1].Packages)
	r.Files, err = files(lists[0], lists[1], r.Packages)
	return r, err
}

// list lists the files of both disks.
func list(ctx context.Context, disks [2]Disk, folder string) (lists [2]*diskaudit.Listing, err error) {
	group, ctx := errgroup.WithContext(ctx)
	if clones(disks) {
		group.SetLimit(1)
	}
	for n, d := range disks {
		group.Go(func() (err error) {
			lists[n], err = diskaudit.Audit{Image: d.Image, Layout: d.Layout, Root: d.Root, Folder: folder}.List(ctx)
			return err
		})
	}
	return lists, group.Wait()
}

// clones says that both disks may have copies of one btrfs file system. Linux before 6.7
// does not mount these at the same time.
func clones(disks [2]Disk) bool {
	for _, d := range disks {
		if !slices.ContainsFunc(d.Layout.Partitions, func(p disk.Partition) bool { return p.Kind == "btrfs" }) {
			return false
		}
	}
	return true
}
