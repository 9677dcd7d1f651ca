//go:build linux

package host

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// surrounding records every file in a folder except those below except: kind, mode,
// owner, time of change, and content or link target. A test compares two records to
// prove that nothing changed.
func surrounding(t *testing.T, folder, except string) map[string]string {
	t.Helper()
	got := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if name == except {
			return fs.SkipDir
		}
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(name, &st))
		note := fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
		switch {
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			require.NoError(t, err)
			note += " " + target
		case d.Type().IsRegular():
			text := testkit.Content(t, name)
			note += fmt.Sprintf(" %d %x", st.Mtim.Nano(), sha256.Sum256([]byte(text)))
		}
		got[name] = note
		return nil
	}))
	return got
}

// untouched records the image's surroundings and checks at the test's end that they
// are unchanged.
func (i image) untouched(t *testing.T) {
	t.Helper()
	before := surrounding(t, i.outside, i.root)
	t.Cleanup(func() {
		require.Equal(t, before, surrounding(t, i.outside, i.root), "files outside the image root changed")
	})
}

// newDisk mounts an empty ext4 file system of that many MiB. Root may fill all of
// its blocks.
func newDisk(t *testing.T, mib int) (mountPoint string) {
	t.Helper()
	folder := t.TempDir()
	mountPoint = filepath.Join(folder, "mnt")
	require.NoError(t, os.Mkdir(mountPoint, 0o755))
	file := filepath.Join(folder, "disk")
	testkit.Run(t, "truncate", "-s", fmt.Sprintf("%dM", mib), file)
	testkit.Run(t, "mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-I", "256", file)
	testkit.Run(t, "mount", "-o", "loop", file, mountPoint)
	t.Cleanup(func() { testkit.Run(t, "umount", mountPoint) })
	return mountPoint
}
