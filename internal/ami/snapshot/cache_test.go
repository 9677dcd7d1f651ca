//go:build linux

package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
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
}

// A kept disk whose blocks changed is downloaded again, also with content where the snapshot has none.
func TestAChangedDiskIsDownloadedAgain(t *testing.T) {
	double, a := served(t)
	d, r := stored(t, a, 6)
	var said string
	say := func(format string, values ...any) { said = fmt.Sprintf(format, values...) }
	c := snapshot.Cache{Folder: t.TempDir(), Say: say}
	for _, one := range []struct {
		block   int64
		content string
		want    int
	}{{0, "", 6}, {4, "other", 12}, {9, "other", 18}, {9, "\x00", 18}} {
		kept, err := c.Get(t.Context(), a, r.Snapshot.ID)
		require.NoError(t, err)
		d.same(t, kept.Path)
		f, err := os.OpenFile(kept.Path, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte(one.content), one.block*snapshot.BlockSize)
		require.NoError(t, errors.Join(err, f.Close(), kept.Close(true)))
		said = ""
		kept, err = c.Get(t.Context(), a, r.Snapshot.ID)
		require.NoError(t, errors.Join(err, kept.Close(true)))
		require.Equal(t, one.want, double.Count().Calls["GetSnapshotBlock"])
		if one.content == "other" {
			require.Contains(t, said, fmt.Sprintf(": the block %d does not match its checksum; ", one.block))
		} else {
			require.Empty(t, said)
		}
	}
}

// A download that stops says whether the next one goes on, and leaves nothing without a block.
func TestADownloadThatStopsSaysWhatItLeaves(t *testing.T) {
	double, a := served(t)
	_, r := stored(t, a, 6)
	double.Fail("GetSnapshotBlock", 1, ebsdirect.Failure{Status: 403, Code: "AccessDeniedException", Message: "no"})
	c := snapshot.Cache{Folder: t.TempDir(), Say: t.Logf, Download: snapshot.Download{Connections: 1}}
	_, err := c.Get(t.Context(), a, r.Snapshot.ID)
	require.ErrorContains(t, err, "GetSnapshotBlock is missing")
	require.NotContains(t, err.Error(), "the next run")
	require.Empty(t, testkit.Names(t, c.Folder))

	ctx, cancel := context.WithCancel(t.Context())
	c.Download.Progress = func(snapshot.Progress) { cancel() }
	_, err = c.Get(ctx, a, r.Snapshot.ID)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "; the next run reads the rest")
}

// A folder without room for the missing blocks is refused before the first one.
func TestAFolderWithoutRoomIsRefused(t *testing.T) {
	double, a := served(t)
	_, r := stored(t, a, 6)
	folder := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", folder, "tmpfs", 0, "size=2m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(folder, 0)) })
	_, err := snapshot.Download{}.Run(t.Context(), a, r.Snapshot.ID, filepath.Join(folder, "disk"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "but 3.1 MB are still to be read")
	require.Empty(t, double.Count().Calls["GetSnapshotBlock"])
}

// audit is the scenario of an audit, which reads the disk of a snapshot.
func audit(t *testing.T) aws.Scenario {
	t.Helper()
	endpoint.Environment(t, nil)
	const id = "snap-00000000000000abc"
	disk := bytes.Repeat([]byte("block"), 2*ebsdirect.BlockSize/5)
	return aws.Scenario{
		Name: "audit", Unsaved: true,
		Begin: func(w *aws.World, _ string) error {
			w.EBS().Forget = false
			return w.EBS().Add(ebsdirect.Snapshot{ID: id, Owner: aws.Account, State: ebsdirect.Completed, Size: 1}, bytes.NewReader(disk))
		},
		Run: func(ctx context.Context, client *http.Client, folder string) error {
			a, err := awsapi.Open(ctx, awsapi.Options{HTTP: client, Settle: 1, Pause: 1})
			if err != nil {
				return err
			}
			d, err := snapshot.Cache{Folder: folder, Say: func(string, ...any) {}}.Get(ctx, a, id)
			if err != nil {
				return err
			}
			f, err := os.Open(d.Path)
			assert.NoError(t, err)
			got := make([]byte, len(disk))
			_, err = io.ReadFull(f, got)
			assert.NoError(t, err)
			assert.True(t, bytes.Equal(disk, got), "the disk has other content")
			return d.Close(true)
		},
		State: func(w *aws.World) string { return w.True(w.Snapshot(id)) },
	}
}

// Whatever AWS answers, an audit gets the disk of the snapshot, or none.
func TestAuditsGetTheDiskOrNone(t *testing.T) { audit(t).Sample(t, 40) }
