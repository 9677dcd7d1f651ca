package disk

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// xfsVariants are the arguments of mkfs.xfs, by what is special about them.
var xfsVariants = map[string]string{
	"version 5":          "",
	"version 4":          "-m crc=0,finobt=0",
	"version 4, old":     "-m crc=0,finobt=0 -n ftype=0 -l lazy-count=0",
	"blocks of 1 KiB":    "-b size=1024",
	"blocks of 2 KiB":    "-b size=2048 -i size=512",
	"sectors of 4 KiB":   "-s size=4096",
	"many groups":        "-d agcount=5",
	"one group":          "-d agcount=1",
	"reflink, rmapbt":    "-m reflink=1,rmapbt=1",
	"no reflink, finobt": "-m reflink=0,finobt=0",
	"bigtime, inobtcnt":  "-m bigtime=1,inobtcount=1",
	"nrext64":            "-i nrext64=1",
	"sparse inodes":      "-i sparse=1",
	"large folders":      "-n size=16384",
	"log version 1":      "-m crc=0,finobt=0 -l version=1",
	"log sector units":   "-l su=65536",
	"log in last group":  "-d agcount=4 -l agnum=3",
	"stripes":            "-d su=65536,sw=2",
	"other UUID":         "-m uuid=c0ffee00-0000-4000-8000-00000000000a",
}

// TestXFSFreeSpaceIsFree copies only what is used into a disk of random bytes. The
// result is the same file system.
func TestXFSFreeSpaceIsFree(t *testing.T) {
	files := tree(t)
	for name, args := range xfsVariants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			disk := filepath.Join(folder, "disk.raw")
			full(t, disk, 80*mib)
			if strings.Contains(args, "crc=0") {
				// Kernels stop supporting version 4, so mkfs writes the files.
				old := filepath.Join(folder, "prototype")
				require.NoError(t, os.WriteFile(old, []byte(prototype(t, files)), 0o644))
				sh(t, folder, "mkfs.xfs -q -f -K -p prototype "+args+` "$1"`, disk)
				xfsIsSame(t, folder, disk, "")
				return
			}
			sh(t, folder, "mkfs.xfs -q -f -K "+args+` "$1"`, disk)
			sh(t, folder, fill, disk, files)
			xfsIsSame(t, folder, disk, files)
		})
	}
}

// prototype is a tree in the form that mkfs.xfs -p reads.
func prototype(t *testing.T, folder string) string {
	t.Helper()
	all := "/\n0 0\nd--755 0 0\n"
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all += entry.Name() + " ---644 0 0 " + path + "\n"
		}
		return err
	}))
	return all + "$\n$\n"
}

// xfsIsSame compares a file system with what xfsprogs says. xfs_db also counts the blocks on
// the list of the trees themselves.
func xfsIsSame(t *testing.T, folder, disk, files string) {
	t.Helper()
	counted := counts(t, sh(t, folder, `xfs_db -r -c "freesp -s" "$1"`, disk), `total free blocks (\d+)`) *
		counts(t, sh(t, folder, `xfs_db -r -c "sb 0" -c "print blocksize" "$1"`, disk), `blocksize = (\d+)`)
	sameSystem(t, folder, disk, files, counted, mib, "xfs_repair -n -f -o force_geometry", ",nouuid")
}

// TestXFSGrown has a file system that grew while it was mounted.
func TestXFSGrown(t *testing.T) {
	files, folder := tree(t), t.TempDir()
	disk := filepath.Join(folder, "disk.raw")
	full(t, disk, 120*mib)
	sh(t, folder, `mkfs.xfs -q -f -K -d size=40m "$1"; mkdir m; mount -o loop "$1" m; xfs_growfs m; umount m; rmdir m`, disk)
	sh(t, folder, fill, disk, files)
	xfsIsSame(t, folder, disk, files)
}

// TestXFSThatTravelsWhole has file systems whose trees must not be used.
func TestXFSThatTravelsWhole(t *testing.T) {
	for name, c := range map[string]struct{ script, whole string }{
		"copied while mounted": {`mkfs.xfs -q -f "$1"; mkdir m; mount -o loop "$1" m; touch m/x; sync; xfs_io -x -c "shutdown -f" m; umount m`,
			"the log has changes that are not in place yet, because the machine was not shut down cleanly"},
		"damaged superblock": {`mkfs.xfs -q -f "$1"; printf xyz | dd of="$1" bs=1 seek=108 conv=notrunc status=none`, "wrong checksum of the superblock"},
		"damaged AGF":        {`mkfs.xfs -q -f -s size=512 "$1"; printf xyz | dd of="$1" bs=1 seek=570 conv=notrunc status=none`, "allocation group 0: wrong checksum of the AGF"},
		"damaged tree":       {`mkfs.xfs -q -f "$1"; printf xyz | dd of="$1" bs=1 seek=$((4096 + 60)) conv=notrunc status=none`, "allocation group 0: wrong checksum of block 1"},
		"log elsewhere":      {`truncate -s 64M log; mkfs.xfs -q -f -l logdev=log,size=16m "$1"`, "the log is on another device"},
		"realtime device":    {`truncate -s 64M rt; mkfs.xfs -q -f -r rtdev=rt "$1"`, "a realtime device belongs to the file system"},
		"needs repair":       {`mkfs.xfs -q -f "$1"; xfs_admin -O inobtcount=1 "$1" || true; xfs_db -x -c "sb 0" -c "write -d features_incompat 0x1b" "$1"`, "unknown incompatible features 0x10"},
		"unknown feature":    {`mkfs.xfs -q -f "$1"; xfs_db -x -c "sb 0" -c "write -d features_ro_compat 0x80000005" "$1"`, "unknown features 0x80000000"},
		"counts that differ": {`mkfs.xfs -q -f "$1"; xfs_db -x -c "sb 0" -c "write -d fdblocks 5" "$1"`, "blocks are free in the allocation groups, and 5 in the superblock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			disk := sparse(t, filepath.Join(folder, "disk.raw"), 80*mib)
			t.Log(sh(t, folder, c.script, disk))
			_, layout := laidOut(t, disk)
			assert.Contains(t, layout.Partitions[0].Whole, c.whole)
			assert.Empty(t, layout.Free)
		})
	}
}
