//go:build linux

package host

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// fill uses every block of a disk.
func fill(t *testing.T, ballast string) {
	t.Helper()
	out, err := os.Create(ballast)
	require.NoError(t, err)
	defer out.Close()
	for size := 1 << 20; size > 0; {
		_, err := out.Write(bytes.Repeat([]byte{1}, size))
		if errors.Is(err, unix.ENOSPC) {
			size /= 2
			continue
		}
		require.NoError(t, err)
	}
	require.NoError(t, out.Sync())
}

// On a full disk the old file stays complete, no part of the new file stays, and
// the write succeeds once there is room.
func TestWriteFileOnAFullDiskKeepsTheOldFile(t *testing.T) {
	disk := newDisk(t, 8)
	require.NoError(t, os.Mkdir(filepath.Join(disk, "etc"), 0o755))
	config := filepath.Join(disk, "etc/config")
	require.NoError(t, os.WriteFile(config, []byte("old"), 0o640))
	fill(t, filepath.Join(disk, "ballast"))
	before := surrounding(t, disk, "")
	h := mounted(t, disk)

	content := bytes.Repeat([]byte("new\n"), 4096)
	err := h.Files.WriteFile("/etc/config", content, Attributes{Mode: 0o640})
	require.EqualError(t, err, "write /etc/config: no space left on device")
	assert.Equal(t, before, surrounding(t, disk, ""))

	require.NoError(t, os.Remove(filepath.Join(disk, "ballast")))
	require.NoError(t, h.Files.WriteFile("/etc/config", content, Attributes{Mode: 0o640}))
	got := []byte(testkit.Content(t, config))
	assert.Equal(t, content, got)
}

// Removing and emptying files work on a full disk.
func TestRemovalWorksOnAFullDisk(t *testing.T) {
	disk := newDisk(t, 8)
	testkit.Write(t, filepath.Join(disk, "state/deep/file"), "x")
	require.NoError(t, os.WriteFile(filepath.Join(disk, "log"), []byte("x"), 0o644))
	fill(t, filepath.Join(disk, "ballast"))
	h := mounted(t, disk)
	_, err := h.Files.RemoveTree("/state")
	require.NoError(t, err)
	require.NoError(t, h.Files.Truncate("/log"))
}

// The next write removes the temporary file of a killed run, and no other file with
// a similar name.
func TestWriteFileRemovesTemporaryFilesOfKilledRuns(t *testing.T) {
	i := newImage(t)
	i.put(t, "etc/hosts", "old")
	left := []string{"etc/.hosts.eksnode-0123456789abcdef", "etc/.hosts.eksnode-fedcba9876543210"}
	for _, name := range left {
		i.put(t, name, "half")
	}
	kept := []string{
		"etc/.hosts.eksnode-", "etc/.hosts.eksnode-0123456789abcdeg", "etc/.hostname.eksnode-0123456789abcdef",
		"etc/hosts.eksnode-0123456789abcdef",
	}
	for _, name := range kept {
		i.put(t, name, "another's")
	}
	i.untouched(t)
	require.NoError(t, i.Files.WriteFile("/etc/hosts", []byte("new"), Attributes{Mode: 0o644}))
	for _, name := range left {
		assert.NoFileExists(t, filepath.Join(i.root, name))
	}
	for _, name := range kept {
		assert.FileExists(t, filepath.Join(i.root, name))
	}
}

// An immutable file is not replaced, and the error contains the remedy.
func TestAnImmutableFileIsNotReplaced(t *testing.T) {
	i := newImage(t)
	i.put(t, "etc/hosts", "old")
	locked := filepath.Join(i.root, "etc/hosts")
	chattr(t, "+i", locked)
	t.Cleanup(func() { chattr(t, "-i", locked) })
	const remedy = "operation not permitted (immutable or append-only? see lsattr; chattr -ia clears it)"
	assert.EqualError(t, i.Files.WriteFile("/etc/hosts", []byte("new"), Attributes{Mode: 0o644}), "write /etc/hosts: "+remedy)
	assert.EqualError(t, i.Files.Truncate("/etc/hosts"), "truncate /etc/hosts: "+remedy)
	list, err := os.ReadDir(filepath.Join(i.root, "etc"))
	require.NoError(t, err)
	assert.Len(t, list, 1, "no temporary file remains")
}
