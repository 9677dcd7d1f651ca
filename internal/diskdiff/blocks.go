package diskdiff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
)

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
	for at := int64(0); at < size; at += disk.BlockSize {
		if err := context.Cause(ctx); err != nil {
			return counted, err
		}
		was, err := before.block(at, first)
		if err != nil {
			return counted, err
		}
		is, err := after.block(at, second)
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

// block reads the block at a place, without what is free. It says whether the block
// has other bytes than zeros.
func (d Disk) block(at int64, into []byte) (bool, error) {
	if d.Image.Zero(at, disk.BlockSize) || !d.Layout.Used(at, disk.BlockSize) {
		return false, nil
	}
	clear(into)
	if _, err := d.Image.ReadAt(into, at); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	d.Layout.ZeroFree(into, at)
	return bytes.ContainsFunc(into, func(r rune) bool { return r != 0 }), nil
}
