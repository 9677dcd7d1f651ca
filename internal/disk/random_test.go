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

// worked are file systems on which TestFreeSpaceAfterRandomWork works: the script that
// makes one in $1, and the command that checks one.
var worked = map[string]struct{ make, check, options string }{
	"ext4":            {`mke2fs -q -F -t ext4 -b 4096 "$1"`, "e2fsck -fn", ""},
	"ext4, 1 KiB":     {`mke2fs -q -F -t ext4 -b 1024 -g 1024 -O orphan_file "$1"`, "e2fsck -fn", ""},
	"ext4, bigalloc":  {`mke2fs -q -F -t ext4 -b 1024 -O bigalloc -C 16384 "$1"`, "e2fsck -fn", ""},
	"ext4, inline":    {`mke2fs -q -F -t ext4 -b 4096 -O inline_data,^resize_inode,meta_bg,fast_commit "$1"`, "e2fsck -fn", ""},
	"ext4, journaled": {`mke2fs -q -F -t ext4 -b 4096 "$1"; tune2fs -o journal_data "$1" > /dev/null`, "e2fsck -fn", ""},
	"ext4, discard":   {`mke2fs -q -F -t ext4 -b 4096 "$1"; tune2fs -o discard "$1" > /dev/null`, "e2fsck -fn", ""},
	"ext4, alone":     {`mke2fs -q -F -t ext4 -b 4096 -O ^has_journal "$1"`, "e2fsck -fn", ""},
	"ext2":            {`mke2fs -q -F -t ext2 -b 1024 "$1"`, "e2fsck -fn", ""},
	"xfs":             {`mkfs.xfs -q -f -K "$1"`, "xfs_repair -n -f -o force_geometry", ",nouuid"},
	"xfs, rmapbt":     {`mkfs.xfs -q -f -K -m rmapbt=1,reflink=1 -d agcount=4 -b size=1024 "$1"`, "xfs_repair -n -f -o force_geometry", ",nouuid"},
	"xfs, 4 KiB":      {`mkfs.xfs -q -f -K -s size=4096 -i nrext64=1,sparse=1 "$1"`, "xfs_repair -n -f -o force_geometry", ",nouuid"},
}

// work is a script of random operations in the folder m.
func work(r *rand.Rand, steps int) string {
	var script strings.Builder
	for range steps {
		name := fmt.Sprintf("m/f%d", r.IntN(60))
		off, length := r.IntN(700)<<10, (1+r.IntN(400))<<10
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			fmt.Fprintf(&script, "dd if=noise of=%s bs=%d seek=%d count=1 conv=notrunc oflag=seek_bytes status=none || :\n", name, length, off)
		case 4:
			fmt.Fprintf(&script, "rm -f %s\n", name)
		case 5:
			fmt.Fprintf(&script, "truncate -s %d %s || :\n", off, name)
		case 6:
			fmt.Fprintf(&script, "xfs_io -f -c 'falloc %d %d' %s || :\n", off, length, name)
		case 7:
			fmt.Fprintf(&script, "test ! -s %[1]s || xfs_io -c 'fpunch %[2]d %[3]d' %[1]s || :\n", name, off, length)
		case 8:
			fmt.Fprintf(&script, "mkdir -p m/d%d; for i in $(seq %d); do echo $i > m/d%[1]d/$i; done || :\n", r.IntN(5), r.IntN(200))
		default:
			fmt.Fprintf(&script, "rm -rf m/d%d; sync -f m\n", r.IntN(5))
		}
	}
	return script.String()
}

// TestFreeSpaceAfterRandomWork copies the blocks that travel onto random bytes and onto
// zeros. Both copies are sound, and have the same files. A copy that is made while the
// file system is mounted travels whole.
func TestFreeSpaceAfterRandomWork(t *testing.T) {
	for name, c := range worked {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			disk, crashed := filepath.Join(folder, "disk.raw"), filepath.Join(folder, "crashed.raw")
			full(t, disk, 80*mib)
			require.NoError(t, os.WriteFile(filepath.Join(folder, "noise"), garbage(), 0o600))
			r := rand.New(rand.NewPCG(7, uint64(len(name))))
			sh(t, folder, c.make+"; mkdir m; mount -o loop \"$1\" m\n"+work(r, 150)+"cp \"$1\" crashed.raw\n"+work(r, 50)+"umount m", disk)

			_, layout := laidOut(t, crashed)
			assert.NotEmpty(t, layout.Partitions[0].Whole)
			assert.Empty(t, layout.Free)
			assert.Equal(t, name != "ext2" && name != "ext4, alone", layout.Partitions[0].Dirty)
			require.NoError(t, os.Remove(crashed))

			image, layout := laidOut(t, disk)
			require.Empty(t, layout.Partitions[0].Whole)
			assert.NotZero(t, layout.Partitions[0].Free)
			want := sh(t, folder, listing, disk, "", c.options)
			for _, base := range []func(*testing.T, string, int64){full, func(t *testing.T, name string, size int64) { sparse(t, name, size) }} {
				copied := filepath.Join(folder, "copy.raw")
				base(t, copied, image.Size())
				p := make([]byte, BlockSize)
				for n := range layout.Blocks() {
					_, err := image.ReadAt(p, n*BlockSize)
					require.NoError(t, err)
					layout.ZeroFree(p, n*BlockSize)
					put(t, copied, n*BlockSize, p)
				}
				sh(t, folder, c.check+` "$1"`, copied)
				assert.Equal(t, want, sh(t, folder, listing, copied, "", c.options))
			}
		})
	}
}
