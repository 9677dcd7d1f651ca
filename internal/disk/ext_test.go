package disk

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// fill writes a tree into the image $1, and removes part of it again.
	fill = `mkdir m; mount -o loop "$1" m; cp -a "$2"/. m/; sync -f m
rm -rf m/da m/db/*x; cp m/large m/again; rm m/large; umount m`
	// listing prints the checksum of every file.
	listing = `mkdir -p m; mount -o loop,ro$3 "$1" m; cd m; find . -xdev -type f -exec sha256sum {} + | sort -k2; cd ..; umount m`
	// use writes files into the image.
	use = `mkdir -p m; mount -o loop "$1" m; cp -a "$2"/de m/new; rm -rf m/dc; umount m`
)

func TestExtFreeSpaceIsFree(t *testing.T) { extCopied(t, "mke2fs") }

// extCopied copies only what is used into a disk of random bytes. The result is the same
// file system.
func extCopied(t *testing.T, systems string) {
	files := tree(t)
	for name, args := range table[map[string]string](t, "systems.yaml")[systems] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			disk := filepath.Join(folder, "disk.raw")
			full(t, disk, 48*mib)
			if !strings.Contains(args, "-b ") {
				args += " -b 4096"
			}
			sh(t, folder, "mke2fs -q -F -E nodiscard "+args+` "$1"`, disk)
			sh(t, folder, fill, disk, files)
			extIsSame(t, folder, disk, files)
		})
	}
}

// extIsSame compares a file system with what e2fsprogs says. Metadata in groups that were
// never written counts as used here.
func extIsSame(t *testing.T, folder, disk, files string) {
	t.Helper()
	head := sh(t, folder, `dumpe2fs -h "$1" 2>/dev/null`, disk)
	counted := counts(t, head, `(?m)^Free blocks: +(\d+)`) * counts(t, head, `(?m)^Block size: +(\d+)`)
	sameSystem(t, folder, disk, files, counted, 2*mib, "e2fsck -fn", "")
}

func TestExtChangedByTools(t *testing.T) { extChanged(t, "changed") }

// extChanged does the same with file systems that grew, shrank, were repaired, or have
// quotas. Not every kernel has quotas.
func extChanged(t *testing.T, systems string) {
	files := tree(t)
	for name, script := range table[map[string]string](t, "systems.yaml")[systems] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			disk := filepath.Join(folder, "disk.raw")
			full(t, disk, 48*mib)
			sh(t, folder, script, disk, files)
			mounts := files
			if strings.Contains(script, "quota") {
				mounts = ""
			}
			extIsSame(t, folder, disk, mounts)
		})
	}
}

// TestExtWithItsJournalElsewhere has a file system without a dirty journal, so its
// bitmaps are right.
func TestExtWithItsJournalElsewhere(t *testing.T) {
	folder := t.TempDir()
	disk := sparse(t, filepath.Join(folder, "disk.raw"), 48*mib)
	sh(t, folder, `truncate -s 16M journal; mke2fs -q -F -b 4096 -O journal_dev journal; dev=$(losetup -f --show journal)
mke2fs -q -F -t ext4 -b 4096 -J device=$dev "$1" || failed=1; losetup -d $dev; [ -z "${failed-}" ]`, disk)
	_, layout := laidOut(t, disk)
	assert.Empty(t, layout.Partitions[0].Whole)
	assert.Equal(t, counts(t, sh(t, folder, `dumpe2fs -h "$1" 2>/dev/null`, disk), `(?m)^Free blocks: +(\d+)`)*4096, layout.Partitions[0].Free)
}

// TestFileSystemsThatTravelWhole has file systems whose bitmaps, trees and tables must not be
// used.
func TestFileSystemsThatTravelWhole(t *testing.T) {
	for name, c := range table[script](t, "whole.yaml") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			name := sparse(t, filepath.Join(folder, "part"), 80*mib)
			sh(t, folder, c.Script, name)
			_, layout := laidOut(t, name)
			assert.Regexp(t, "^"+c.Want+"$", layout.Partitions[0].Whole)
			assert.Empty(t, layout.Free)
			assert.True(t, layout.Used(20*mib-1, 1))
		})
	}
}

// counts returns the number in a program's output.
func counts(t *testing.T, output, pattern string) int64 {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(output)
	require.Len(t, found, 2, "%s in %s", pattern, output)
	n, err := strconv.ParseInt(found[1], 10, 64)
	require.NoError(t, err)
	return n
}
