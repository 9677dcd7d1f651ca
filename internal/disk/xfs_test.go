package disk

import "testing"

const (
	mkfsXFS = `mkfs.xfs -q -f -K %s "$1"` + "\n" + fill
	// oldXFS gives mkfs.xfs the files, because kernels stop supporting version 4.
	oldXFS = `{ printf '/\n0 0\nd--755 0 0\n'; find "$2" -type f -printf '%%f ---644 0 0 %%p\n'
printf '$\n$\n'; } > prototype; mkfs.xfs -q -f -K -p prototype %s "$1"`
)

func TestXFSFreeSpaceIsFree(t *testing.T) {
	copied(t, "xfs", mkfsXFS, 80*mib, xfsIsSame)
	copied(t, "old xfs", oldXFS, 80*mib, xfsIsSame)
	copied(t, "changed xfs", "%s", 80*mib, xfsIsSame)
}

// xfsIsSame compares a file system with what xfsprogs says. xfs_db also counts the blocks on
// the list of the trees themselves.
func xfsIsSame(t *testing.T, folder, disk, files string) {
	t.Helper()
	counted := counts(t, sh(t, folder, `xfs_db -r -c "freesp -s" "$1"`, disk), `total free blocks (\d+)`) *
		counts(t, sh(t, folder, `xfs_db -r -c "sb 0" -c "print blocksize" "$1"`, disk), `blocksize = (\d+)`)
	sameSystem(t, folder, disk, files, counted, mib, "xfs_repair -n -f -o force_geometry", ",nouuid")
}
