package disk

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
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

// mke2fs makes a file system with the arguments, and fills it.
const mke2fs = `mke2fs -q -F -b 4096 -E nodiscard %s "$1"` + "\n" + fill

func TestExtFreeSpaceIsFree(t *testing.T) { copied(t, "mke2fs", mke2fs, 48*mib, extIsSame) }

// Some file systems grew, shrank, were repaired, or have quotas.
func TestExtChangedByTools(t *testing.T) { copied(t, "changed", "%s", 48*mib, extIsSame) }

// copied copies only what is used into a disk of random bytes. The result is the same file
// system. The script with the arguments of a system makes one in the file $1, from the
// files $2. Not every kernel mounts quotas or version 4 of XFS.
func copied(t *testing.T, systems, script string, size int64, same func(t *testing.T, folder, disk, files string)) {
	files := tree(t)
	for name, args := range table[map[string]string](t, "systems.yaml")[systems] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			disk := filepath.Join(folder, "disk.raw")
			full(t, disk, size)
			sh(t, folder, fmt.Sprintf(script, args), disk, files)
			mounts := files
			if strings.Contains(args, "quota") || strings.Contains(args, "crc=0") {
				mounts = ""
			}
			same(t, folder, disk, mounts)
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

// TestExtLimits changes a number of a superblock to the last one that is right, and beyond.
func TestExtLimits(t *testing.T) {
	folder := t.TempDir()
	image := sparse(t, filepath.Join(folder, "image"), 8*mib)
	sh(t, folder, `mke2fs -q -F -t ext4 -b 1024 -O ^metadata_csum,^has_journal,64bit image`)
	base := []byte(testkit.Content(t, image))
	for name, c := range map[string]struct {
		at    int64
		value uint16
		lost  int64 // bytes at the end of the partition
		why   string
	}{
		"blocks of 64 KiB":       {at: 24, value: 6, why: "8192 blocks of 65536 bytes in a partition of"},
		"blocks of 128 KiB":      {at: 24, value: 7, why: "blocks of 2^7"},
		"fragments":              {at: 28, value: 2},
		"clusters of 2 GiB":      {at: 28, value: 21, why: "clusters of 2^21"},
		"cut off":                {lost: 1, why: "8192 blocks of 1024 bytes in a partition of 8388607 bytes"},
		"descriptors of a block": {at: 254, value: 1024},
		"larger descriptors":     {at: 254, value: 2048, why: "descriptors of 2048 bytes"},
		"small inodes":           {at: 88, value: 128},
		"smaller inodes":         {at: 88, value: 64, why: "inodes of 64 bytes"},
		"inodes of a block":      {at: 88, value: 1024},
		"larger inodes":          {at: 88, value: 2048, why: "inodes of 2048 bytes"},
		"many inodes":            {at: 40, value: 8192},
		"too many inodes":        {at: 40, value: 8193, why: "8193 inodes of"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := patched{base: base}
			if c.at != 0 {
				changed.at, changed.patch = 1024+c.at, binary.LittleEndian.AppendUint16(nil, c.value)
			}
			f, err := openExt(changed)
			if err == nil {
				err = f.check(int64(len(base)) - c.lost)
			}
			if c.why == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.why)
			}
		})
	}
}

// A cluster with metadata is used as a whole, also if a bitmap says something else.
func TestMetadataTakesWholeClusters(t *testing.T) {
	s := extScan{ext: &ext{block: 4096, ratio: 4}}
	s.meta(6, 1)
	s.meta(8, 5)
	assert.Equal(t, []Range{{4 * 4096, 4 * 4096}, {8 * 4096, 8 * 4096}}, s.used)
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
