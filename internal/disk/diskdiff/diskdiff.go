// Package diskdiff compares two disks: blocks, then files, then the packages that own
// the files.
package diskdiff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// Disk is one of the two disks.
type Disk struct {
	Image *disk.Image
	// Root is the number of the partition to compare; 0 finds the root.
	Root int
}

// Open opens a disk image.
func Open(path string, root int) (Disk, error) {
	image, err := disk.Open(path)
	if err != nil {
		return Disk{}, err
	}
	if _, err := image.Layout.Roots(root); err != nil {
		return Disk{}, errors.Join(fmt.Errorf("comparing the disk image %s: %w", path, err), image.Close())
	}
	return Disk{image, root}, nil
}

// Result is what differs between two disks.
type Result struct {
	Blocks Blocks `json:"blocks"`
	// Roots are the compared partitions, before and after.
	Roots    [2]diskaudit.Root `json:"roots"`
	Packages []Package         `json:"packages"`
	Files    []File            `json:"files"`
}

// None is the result for a disk and itself.
func None() Result { return Result{Packages: []Package{}, Files: []File{}} }

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
		r.Roots[n] = l.Root
	}
	r.Packages = packagesOf(lists[0].Packages, lists[1].Packages)
	r.Files, err = files(lists[0], lists[1], r.Packages)
	return r, err
}

func list(ctx context.Context, disks [2]Disk, folder string) (lists [2]*diskaudit.Listing, err error) {
	group, ctx := errgroup.WithContext(ctx)
	if clones(disks) {
		group.SetLimit(1)
	}
	for n, d := range disks {
		group.Go(func() (err error) {
			lists[n], err = diskaudit.Audit{Image: d.Image, Root: d.Root, Folder: folder}.List(ctx)
			return err
		})
	}
	return lists, group.Wait()
}

// clones says that both disks may have copies of one btrfs file system. Linux before 6.7
// does not mount these at the same time.
func clones(disks [2]Disk) bool {
	for _, d := range disks {
		if !slices.ContainsFunc(d.Image.Layout.All(), func(p disk.Partition) bool { return p.Kind == "btrfs" }) {
			return false
		}
	}
	return true
}

// Package is a package whose version differs. Without Before, the package was added;
// without After, it was removed.
type Package struct {
	Name   string  `json:"name"`
	Before *string `json:"before"`
	After  *string `json:"after"`
	// Files is the number of files that differ and that the package owns.
	Files int `json:"files"`
}

func packagesOf(before, after packages.Installed) []Package {
	list := []Package{}
	for name, values := range Differing(versions(before), versions(after)) {
		list = append(list, Package{Name: name, Before: values[0], After: values[1]})
	}
	return list
}

// Differing lists what differs between two maps, by name, with the values before and after.
// A value that is not there is nil.
func Differing(before, after map[string]string) iter.Seq2[string, [2]*string] {
	return func(yield func(string, [2]*string) bool) {
		all := map[string][2]*string{}
		for name, value := range before {
			all[name] = [2]*string{&value, nil}
		}
		for name, value := range after {
			all[name] = [2]*string{all[name][0], &value}
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			was, is := all[name][0], all[name][1]
			if (was == nil || is == nil || *was != *is) && !yield(name, all[name]) {
				return
			}
		}
	}
}

func versions(all packages.Installed) map[string]string {
	list := map[string]string{}
	for _, p := range all {
		list[p.Name] = p.Version
	}
	return list
}

func nameOf(owner string, all packages.Installed) string {
	if p, ok := all[owner]; ok {
		return p.Name
	}
	return owner
}

// Blocks counts blocks of 512 KiB.
type Blocks struct {
	// By is how the blocks were compared: ByLineage or ByContent.
	By      string `json:"by"`
	Changed int    `json:"changed"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
}

const (
	// ByLineage means that EBS compared two snapshots of one lineage.
	ByLineage = "lineage"
	// ByContent means that the content of the disks was compared, without free space.
	ByContent = "content"
)

// String describes the counts for a person.
func (b Blocks) String() string {
	one := func(n int, what string) string { return fmt.Sprintf("%d %s (%.1f MiB)", n, what, float64(n)/2) }
	return one(b.Changed, "changed") + ", " + one(b.Added, "added") + ", " + one(b.Removed, "removed")
}

// CompareBlocks compares the content of two disks. What file systems say is free
// counts as zeros. A block of zeros counts as none.
func CompareBlocks(ctx context.Context, before, after Disk) (Blocks, error) {
	counted := Blocks{By: ByContent}
	size := max(before.Image.Size(), after.Image.Size())
	first, second := make([]byte, disk.BlockSize), make([]byte, disk.BlockSize)
	for n := range (size + disk.BlockSize - 1) / disk.BlockSize {
		if err := context.Cause(ctx); err != nil {
			return counted, err
		}
		was, err := before.Image.Block(n, first)
		if err != nil {
			return counted, err
		}
		is, err := after.Image.Block(n, second)
		switch {
		case err != nil:
			return counted, err
		case was && !is:
			counted.Removed++
		case !was && is:
			counted.Added++
		case was && !bytes.Equal(first, second):
			counted.Changed++
		}
	}
	return counted, nil
}
