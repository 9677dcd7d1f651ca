package disk

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestXFSFreeSpaceIsFree(t *testing.T) { xfsCopied(t, "xfs") }

// xfsCopied copies only what is used into a disk of random bytes. The result is the same
// file system.
func xfsCopied(t *testing.T, systems string) {
	files := tree(t)
	for name, args := range table[map[string]string](t, "systems.yaml")[systems] {
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

// TestXFSTreesWithLevels has more pieces of free space than a block of the tree lists.
func TestXFSTreesWithLevels(t *testing.T) {
	files, folder := tree(t), t.TempDir()
	disk := filepath.Join(folder, "disk.raw")
	full(t, disk, 80*mib)
	sh(t, folder, `mkfs.xfs -q -f -K -b size=1024 -d agcount=1 "$1"; mkdir m; mount -o loop "$1" m
i=0; while [ $i -lt 1000 ]; do echo $i > m/$i; i=$((i+1)); done; sync -f m; rm m/*[02468]; umount m`, disk)
	levels := counts(t, sh(t, folder, `xfs_db -r -c "agf 0" -c "print bnolevel" "$1"`, disk), `bnolevel = (\d+)`)
	require.Greater(t, levels, int64(1))
	xfsIsSame(t, folder, disk, files)
}
