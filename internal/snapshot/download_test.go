package snapshot_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
)

// same checks that a file has every block of the disk, and zeros in a sample of the
// others.
func (d disk) same(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	st, err := f.Stat()
	require.NoError(t, err)
	require.Equal(t, int64(1<<30), st.Size())
	got := make([]byte, snapshot.BlockSize)
	for index := range int32(2048) {
		if _, used := d[index]; !used && index%100 != 0 {
			continue
		}
		_, err := f.ReadAt(got, int64(index)*snapshot.BlockSize)
		require.NoError(t, err)
		want := make([]byte, snapshot.BlockSize)
		if d[index] > 0 {
			want = content(index, d[index])
		}
		require.True(t, string(want) == string(got), "block %d", index)
	}
}

func TestADownloadIsTheUploadedDisk(t *testing.T) {
	double, a := served(t)
	double.EmptyPages = true
	d := disk{0: 1, 5: 0, 6: 2, 2047: 1}
	r, err := upload(t).Run(t.Context(), a, d.source())
	require.NoError(t, err)
	double.Fail("GetSnapshotBlock", 1, ebsdirect.Failure{})
	path := filepath.Join(t.TempDir(), "disk")
	sums, err := snapshot.Download{}.Run(t.Context(), a, r.Snapshot.ID, path)
	require.NoError(t, err)
	require.Equal(t, r.Sums, sums)
	d.same(t, path)
	files, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	require.Equal(t, []string{path}, files)
}

func TestAnInterruptedDownloadGoesOn(t *testing.T) {
	double, a := served(t)
	d := disk{}
	for index := range int32(200) {
		d[index] = 1
	}
	r, err := upload(t).Run(t.Context(), a, d.source())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "disk")
	ctx, cancel := context.WithCancel(t.Context())
	stop := func(p snapshot.Progress) {
		if p.Sent == 100 {
			cancel()
		}
	}
	_, err = snapshot.Download{Progress: stop}.Run(ctx, a, r.Snapshot.ID, path)
	require.ErrorIs(t, err, context.Canceled)
	require.NoFileExists(t, path)

	part, err := os.OpenFile(path+".part", os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = part.WriteAt([]byte("torn"), 0) // a block that was not written completely
	require.NoError(t, err)
	require.NoError(t, part.Close())
	before := double.Count().Calls["GetSnapshotBlock"]
	_, err = snapshot.Download{}.Run(t.Context(), a, r.Snapshot.ID, path)
	require.NoError(t, err)
	require.Less(t, double.Count().Calls["GetSnapshotBlock"]-before, 110)
	d.same(t, path)
}

func TestOnlyCompletedSnapshotsAreRead(t *testing.T) {
	double, a := served(t)
	ctx, cancel := context.WithCancel(t.Context())
	u := upload(t)
	u.Keep = true
	u.Progress = func(snapshot.Progress) { cancel() }
	_, err := u.Run(ctx, a, disk{0: 1, 1: 1}.source())
	require.Error(t, err)
	id := double.IDs()[0]
	_, err = snapshot.Download{}.Run(t.Context(), a, id, filepath.Join(t.TempDir(), "disk"))
	require.EqualError(t, err, "reading the snapshot "+id+": its state is pending, but only a completed snapshot can be read")
}
