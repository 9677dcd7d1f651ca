//go:build linux

package snapshot_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
)

func owner(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Uid
}

// An audit with sudo must leave the folders of a person's cache to that person.
func TestFoldersOfACacheHaveTheOwnerOfTheirParent(t *testing.T) {
	_, a := served(t)
	d, r := stored(t, a, 6)
	home := t.TempDir()
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(home, 65534, 65534))
	}
	c := snapshot.Cache{Folder: filepath.Join(home, "eksnode", "assets", "snapshots"), Say: t.Logf}
	kept, err := c.Get(t.Context(), a, r.Snapshot.ID)
	require.NoError(t, err)
	d.same(t, kept.Path)
	require.Equal(t, r.Sums, kept.Sums)
	for path := c.Folder; path != home; path = filepath.Dir(path) {
		require.Equal(t, owner(t, home), owner(t, path), path)
	}
	require.Equal(t, uint32(os.Geteuid()), owner(t, filepath.Dir(kept.Path)))
	info, err := os.Stat(filepath.Dir(kept.Path))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.NoError(t, kept.Close(false))
	require.NoDirExists(t, filepath.Dir(kept.Path))
}

// A disk without its checksums is worthless, as after a kill between both files.
func TestADiskWithoutChecksumsIsDownloadedAgain(t *testing.T) {
	double, a := served(t)
	d, r := stored(t, a, 6)
	var said []string
	c := snapshot.Cache{Folder: t.TempDir(), Say: func(format string, _ ...any) { said = append(said, format) }}
	for range 2 {
		kept, err := c.Get(t.Context(), a, r.Snapshot.ID)
		require.NoError(t, err)
		d.same(t, kept.Path)
		require.NoError(t, kept.Close(true))
		require.NoError(t, os.Remove(kept.Path+".sums"))
	}
	require.Len(t, said, 1)
	require.Equal(t, 12, double.Count().Calls["GetSnapshotBlock"])
	kept, err := c.Get(t.Context(), a, r.Snapshot.ID)
	require.NoError(t, err)
	require.NoError(t, kept.Close(true))
	kept, err = c.Get(t.Context(), a, r.Snapshot.ID)
	require.NoError(t, err)
	require.NoError(t, kept.Close(false))
	require.Equal(t, 18, double.Count().Calls["GetSnapshotBlock"], "with its checksums, the disk is used again")
}
