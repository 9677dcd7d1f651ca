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

// extVariants are the arguments of mke2fs, by what is special about them.
var extVariants = map[string]string{
	"ext4":                       "-t ext4",
	"ext2":                       "-t ext2",
	"ext2 of the first revision": "-t ext2 -r 0 -O none -I 128",
	"ext3":                       "-t ext3",
	"blocks of 1 KiB":            "-t ext4 -b 1024",
	"blocks of 2 KiB":            "-t ext4 -b 2048",
	"ext2, blocks of 1 KiB":      "-t ext2 -b 1024",
	"32 bits":                    "-t ext4 -O ^64bit",
	"32 bits, no checksums":      "-t ext4 -O ^64bit,^metadata_csum,^uninit_bg",
	"uninit_bg":                  "-t ext4 -O ^metadata_csum,uninit_bg -b 1024 -g 512",
	"uninit_bg, 32 bits":         "-t ext4 -O ^64bit,^metadata_csum,uninit_bg -b 1024 -g 512",
	"many small groups":          "-t ext4 -b 1024 -g 512",
	"no flex_bg":                 "-t ext4 -b 1024 -g 1024 -O ^flex_bg",
	"groups in pairs":            "-t ext4 -b 1024 -g 512 -G 2",
	"meta_bg":                    "-t ext4 -O meta_bg,^resize_inode",
	"meta_bg, small groups":      "-t ext4 -b 1024 -g 512 -O meta_bg,^resize_inode",
	"meta_bg, no flex_bg":        "-t ext4 -b 1024 -g 512 -O meta_bg,^resize_inode,^flex_bg,^sparse_super",
	"bigalloc":                   "-t ext4 -O bigalloc -C 16384",
	"bigalloc, 64 KiB on 1 KiB":  "-t ext4 -b 1024 -O bigalloc -C 65536",
	"bigalloc, small groups":     "-t ext4 -b 1024 -O bigalloc -C 4096 -g 1024",
	"bigalloc and meta_bg":       "-t ext4 -b 1024 -O bigalloc,meta_bg,^resize_inode -C 4096 -g 1024",
	"sparse_super2":              "-t ext4 -O sparse_super2 -b 1024 -g 1024",
	"no sparse_super":            "-t ext4 -O ^sparse_super,^resize_inode -b 1024 -g 1024",
	"inline_data":                "-t ext4 -O inline_data -I 256",
	"lazy inode tables":          "-t ext4 -E lazy_itable_init=1,lazy_journal_init=1",
	"lazy, small groups":         "-t ext4 -b 1024 -g 512 -E lazy_itable_init=1,lazy_journal_init=1",
	"written inode tables":       "-t ext4 -E lazy_itable_init=0,lazy_journal_init=0",
	"packed_meta_blocks":         "-t ext4 -E packed_meta_blocks=1",
	"ea_inode, large_dir":        "-t ext4 -O ea_inode,large_dir",
	"blocks of 4 KiB, groups":    "-t ext4 -b 4096 -g 1024",
	"bigalloc, groups":           "-t ext4 -b 4096 -g 4096 -O bigalloc -C 16384",
	"encrypt, verity":            "-t ext4 -O encrypt,verity",
	"mmp":                        "-t ext4 -O mmp -E mmp_update_interval=1",
	"orphan_file, csum_seed":     "-t ext4 -O orphan_file,metadata_csum_seed",
	"fast_commit":                "-t ext4 -O fast_commit,stable_inodes",
	"no journal":                 "-t ext4 -O ^has_journal",
	"room to grow":               "-t ext4 -E resize=2000000 -b 1024",
}

const (
	// fill writes a tree into the image $1, and removes part of it again.
	fill = `mkdir m; mount -o loop "$1" m; cp -a "$2"/. m/; sync
rm -rf m/da m/db/*x; cp m/large m/again; rm m/large; umount m`
	// listing prints the checksum of every file.
	listing = `mkdir -p m; mount -o loop,ro$3 "$1" m; cd m; find . -xdev -type f -exec sha256sum {} + | sort -k2; cd ..; umount m`
	// use writes files into the image.
	use = `mkdir -p m; mount -o loop "$1" m; cp -a "$2"/de m/new; rm -rf m/dc; umount m`
)

// TestExtFreeSpaceIsFree copies only what is used into a disk of random bytes.
// The result is the same file system.
func TestExtFreeSpaceIsFree(t *testing.T) {
	files := tree(t)
	for name, args := range extVariants {
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

// TestExtChangedByTools does the same with file systems that grew, shrank, were
// repaired, have quotas or a journal of their own. Not every kernel has quotas.
func TestExtChangedByTools(t *testing.T) {
	files := tree(t)
	for name, script := range map[string]string{
		"grown":           `truncate -s 24M "$1"; mke2fs -q -F -t ext4 -b 1024 -g 1024 "$1"; truncate -s 48M "$1"; e2fsck -fy "$1"; resize2fs "$1"`,
		"shrunk":          `mke2fs -q -F -t ext4 -d "$2" "$1"; resize2fs "$1" 30M`,
		"grown, meta_bg":  `truncate -s 16M "$1"; mke2fs -q -F -t ext4 -b 1024 -g 256 -O ^resize_inode "$1"; truncate -s 48M "$1"; e2fsck -fy "$1"; resize2fs "$1"`,
		"64 bits":         `mke2fs -q -F -t ext4 -O ^64bit -d "$2" "$1"; resize2fs -b "$1"; e2fsck -fy "$1"`,
		"checksums added": `mke2fs -q -F -t ext4 -O ^metadata_csum -d "$2" "$1"; tune2fs -O metadata_csum "$1"; e2fsck -fyD "$1" || [ $? = 1 ]`,
		"quotas":          `mke2fs -q -F -t ext4 -O quota,project -I 256 -d "$2" "$1"; e2fsck -fy "$1" || [ $? = 1 ]`,
		"new UUID":        `mke2fs -q -F -t ext4 -d "$2" "$1"; tune2fs -U random "$1" || { e2fsck -fy "$1"; tune2fs -U random "$1"; }`,
		"repaired":        `mke2fs -q -F -t ext4 -b 4096 -d "$2" "$1"; debugfs -w -R "freeb 3000 900" "$1"; e2fsck -fy "$1" || [ $? = 1 ]`,
	} {
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

// TestExtThatTravelsWhole has file systems whose bitmaps must not be used.
func TestExtThatTravelsWhole(t *testing.T) {
	for name, c := range map[string]struct{ script, whole string }{
		"dirty journal":                   {`mke2fs -q -F -t ext4 -b 4096 "$1"; debugfs -w -R "feature needs_recovery" "$1"`, "the journal needs recovery, because the machine was not shut down cleanly"},
		"marked as damaged":               {`mke2fs -q -F -t ext4 -b 4096 "$1"; debugfs -w -R "ssv state 3" "$1"`, "marked as damaged; run e2fsck"},
		"mounted":                         {`mke2fs -q -F -t ext2 -b 4096 "$1"; debugfs -w -R "ssv state 0" "$1"`, "not unmounted cleanly"},
		"unknown incompatible feature":    {`mke2fs -q -F -t ext4 -O ^metadata_csum -b 4096 "$1"; debugfs -w -R "ssv feature_incompat 0x10000242" "$1"`, "unknown incompatible features 0x10000000"},
		"unknown feature for writing":     {`mke2fs -q -F -t ext4 -O ^metadata_csum -b 4096 "$1"; debugfs -w -R "ssv feature_ro_compat 0x80000003" "$1"`, "unknown features 0x80000000"},
		"block counts that differ":        {`mke2fs -q -F -t ext2 -b 4096 "$1"; debugfs -w -R "set_bg 0 free_blocks_count 5" "$1"`, "block group 0: 11508 clusters are free in the bitmap, and 5 in the descriptor"},
		"damaged superblock":              {`mke2fs -q -F -t ext4 -b 4096 "$1"; printf xyz | dd of="$1" bs=1 seek=1144 conv=notrunc status=none`, "wrong checksum of the superblock"},
		"damaged bitmap":                  {`mke2fs -q -F -t ext4 -G 1 -b 4096 -O ^resize_inode "$1"; printf '\0' | dd of="$1" bs=1 seek=8200 conv=notrunc status=none`, "block group 0: wrong checksum of the block bitmap"},
		"damaged descriptor":              {`mke2fs -q -F -t ext4 -b 4096 "$1"; printf '\377' | dd of="$1" bs=1 seek=4104 conv=notrunc status=none`, "block group 0: wrong checksum of the descriptor"},
		"damaged descriptor, 16 bits sum": {`mke2fs -q -F -t ext4 -O ^metadata_csum,uninit_bg -b 4096 "$1"; printf '\377' | dd of="$1" bs=1 seek=4104 conv=notrunc status=none`, "block group 0: wrong checksum of the descriptor"},
		"a journal of another":            {`mke2fs -q -F -O journal_dev "$1"`, "free space in ext4 journal is not read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			disk := sparse(t, filepath.Join(folder, "disk.raw"), 48*mib)
			sh(t, folder, c.script, disk)
			_, layout := laidOut(t, disk)
			assert.Equal(t, c.whole, layout.Partitions[0].Whole)
			assert.Empty(t, layout.Free)
			assert.True(t, layout.Used(40*mib, 1))
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
