//go:build e2e

package disk

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// worked are file systems on which TestFreeSpaceAfterRandomWork works, and the script that
// makes one in $1.
var worked = map[string]string{
	"ext4":            `mke2fs -q -F -t ext4 -b 4096 "$1"`,
	"ext4, 1 KiB":     `mke2fs -q -F -t ext4 -b 1024 -g 1024 -O orphan_file,^64bit "$1"`,
	"ext4, bigalloc":  `mke2fs -q -F -t ext4 -b 1024 -O bigalloc -C 16384 "$1"`,
	"ext4, inline":    `mke2fs -q -F -t ext4 -b 4096 -O inline_data,^resize_inode,meta_bg,fast_commit "$1"`,
	"ext4, journaled": `mke2fs -q -F -t ext4 -b 4096 "$1"; tune2fs -o journal_data "$1" > /dev/null`,
	"ext4, discard":   `mke2fs -q -F -t ext4 -b 4096 "$1"; tune2fs -o discard "$1" > /dev/null`,
	"ext4, alone":     `mke2fs -q -F -t ext4 -b 4096 -O ^has_journal "$1"`,
	"ext2":            `mke2fs -q -F -t ext2 -b 1024 "$1"`,
	"xfs":             `mkfs.xfs -q -f -K "$1"`,
	"xfs, rmapbt":     `mkfs.xfs -q -f -K -m rmapbt=1,reflink=1 -d agcount=4 -b size=1024 "$1"`,
	"xfs, 4 KiB":      `mkfs.xfs -q -f -K -s size=4096 -i nrext64=1,sparse=1 "$1"`,
}

// work is a script of random operations in the folder m.
func work(r *rand.Rand, steps int) string {
	var script strings.Builder
	for range steps {
		name := fmt.Sprintf("m/f%d", r.IntN(60))
		off, length := r.IntN(700)<<10, (1+r.IntN(400))<<10
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			const write = "dd if=noise of=%s bs=%d seek=%d count=1 conv=notrunc oflag=seek_bytes status=none || :\n"
			fmt.Fprintf(&script, write, name, length, off)
		case 4:
			fmt.Fprintf(&script, "rm -f %s\n", name)
		case 5:
			fmt.Fprintf(&script, "truncate -s %d %s || :\n", off, name)
		case 6:
			fmt.Fprintf(&script, "xfs_io -f -c 'falloc %d %d' %s || :\n", off, length, name)
		case 7:
			fmt.Fprintf(&script, "test ! -s %[1]s || xfs_io -c 'fpunch %[2]d %[3]d' %[1]s || :\n", name, off, length)
		case 8:
			fmt.Fprintf(&script, "mkdir -p m/d%d; for i in $(seq %d); do echo $i > m/d%[1]d/$i; done || :\n",
				r.IntN(5), r.IntN(200))
		default:
			fmt.Fprintf(&script, "rm -rf m/d%d; sync -f m\n", r.IntN(5))
		}
	}
	return script.String()
}

// TestMoreFreeSpaceIsFree has the file systems that differ less from one another.
func TestMoreFreeSpaceIsFree(t *testing.T) {
	copied(t, "more mke2fs", mke2fs, 48*mib, extIsSame)
	copied(t, "more changed", "%s", 48*mib, extIsSame)
	copied(t, "more xfs", mkfsXFS, 80*mib, xfsIsSame)
	copied(t, "more old xfs", oldXFS, 80*mib, xfsIsSame)
}

// TestFreeSpaceAfterRandomWork copies the blocks that travel onto random bytes and onto
// zeros. Both copies are sound, and have the same files. A copy that is made while the
// file system is mounted travels whole.
func TestFreeSpaceAfterRandomWork(t *testing.T) {
	for name, script := range worked {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check, options := "e2fsck -fn", ""
			if strings.HasPrefix(name, "xfs") {
				check, options = "xfs_repair -n -f -o force_geometry", ",nouuid"
			}
			folder := t.TempDir()
			disk, crashed := filepath.Join(folder, "disk.raw"), filepath.Join(folder, "crashed.raw")
			full(t, disk, 80*mib)
			require.NoError(t, os.WriteFile(filepath.Join(folder, "noise"), garbage(), 0o600))
			r := rand.New(rand.NewPCG(7, uint64(len(name))))
			script += "; mkdir m; mount -o loop \"$1\" m\n" + work(r, 150)
			script += "cp \"$1\" crashed.raw\n" + work(r, 50) + "umount m"
			sh(t, folder, script, disk)

			_, layout := laidOut(t, crashed)
			assert.NotEmpty(t, layout.Partitions[0].Whole)
			assert.Empty(t, layout.Free)
			assert.Equal(t, name != "ext2" && name != "ext4, alone", layout.Partitions[0].Dirty)
			require.NoError(t, os.Remove(crashed))

			image, layout := laidOut(t, disk)
			require.Empty(t, layout.Partitions[0].Whole)
			assert.NotZero(t, layout.Partitions[0].Free)
			want := sh(t, folder, listing, disk, "", options)
			zeros := func(t *testing.T, name string, size int64) { sparse(t, name, size) }
			for _, base := range []func(*testing.T, string, int64){full, zeros} {
				copied := filepath.Join(folder, "copy.raw")
				base(t, copied, image.Size())
				writeBlocks(t, image, copied)
				sh(t, folder, check+` "$1"`, copied)
				assert.Equal(t, want, sh(t, folder, listing, copied, "", options))
			}
		})
	}
}
