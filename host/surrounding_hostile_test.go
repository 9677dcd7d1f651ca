//go:build linux

package host

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// surrounding records every file in a folder except those below except, with the time of its
// change. A test compares two records to prove that nothing changed.
func surrounding(t *testing.T, folder, except string) testkit.Tree {
	t.Helper()
	got := testkit.Tree{}
	got.Note(t, folder, folder, func(name string) bool { return name == except }, func(_, name string) string {
		changed := stat(t, name).Mtim
		return fmt.Sprint(changed.Nano(), testkit.Sum(t, name))
	})
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
	mountPoint = t.TempDir()
	testkit.Disk(t, mountPoint, fmt.Sprintf("%dM", mib), "", "mke2fs", "-q", "-t", "ext4", "-m", "0", "-I", "256")
	return mountPoint
}
