package snapshot_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
)

// The second snapshot comes from the file of the first one and the blocks that changed.
func TestOnlyChangedBlocksAreFetched(t *testing.T) {
	double, a := served(t)
	double.EmptyPages = true
	before := disk{0: 1, 5: 1, 6: 2, 7: 3, 2047: 1}
	first, err := upload(t).Run(t.Context(), a, before.source())
	require.NoError(t, err)
	u := upload(t)
	u.Parent, u.ParentSums = first.Snapshot.ID, first.Sums
	after := disk{0: 1, 5: 2, 6: 0, 7: 3, 9: 1, 2047: 1}
	second, err := u.Run(t.Context(), a, after.source())
	require.NoError(t, err)

	changes, err := snapshot.Compare(t.Context(), a, first.Snapshot.ID, second.Snapshot.ID)
	require.NoError(t, err)
	require.Len(t, changes.Changed, 2)
	require.Len(t, changes.Added, 1)
	require.Empty(t, changes.Removed)
	folder := t.TempDir()
	from, path := filepath.Join(folder, "first"), filepath.Join(folder, "second")
	sums, err := snapshot.Download{}.Run(t.Context(), a, first.Snapshot.ID, from)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	stop := snapshot.Download{Connections: 1, Progress: func(snapshot.Progress) { cancel() }}
	err = stop.Update(ctx, a, changes, from, sums, path)
	require.ErrorIs(t, err, context.Canceled)
	double.Fail("GetSnapshotBlock", 1, ebsdirect.Failure{Status: 403, Code: "AccessDeniedException", Message: "no"})
	err = snapshot.Download{Connections: 1}.Update(t.Context(), a, changes, from, sums, path)
	require.ErrorContains(t, err, "downloading the changes from the snapshot "+first.Snapshot.ID+" to "+second.Snapshot.ID+": ")
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 1, "a failed update leaves nothing")

	fetched := double.Count().Fetched
	require.NoError(t, snapshot.Download{}.Update(t.Context(), a, changes, from, sums, path))
	require.EqualValues(t, 3*snapshot.BlockSize, double.Count().Fetched-fetched)
	after.same(t, path)
	before.same(t, from)

	// The other direction: a block that the second one lacks is zeros.
	changes, err = snapshot.Compare(t.Context(), a, second.Snapshot.ID, first.Snapshot.ID)
	require.NoError(t, err)
	require.Len(t, changes.Removed, 1)
	sums, err = snapshot.Download{}.Run(t.Context(), a, second.Snapshot.ID, from+"2")
	require.NoError(t, err)
	require.NoError(t, snapshot.Download{}.Update(t.Context(), a, changes, from+"2", sums, path+"2"))
	before.same(t, path+"2")
}

func TestSnapshotsOfDifferentLineagesAreUnrelated(t *testing.T) {
	_, a := served(t)
	var ids []string
	for version := range byte(2) {
		r, err := upload(t).Run(t.Context(), a, disk{0: version + 1}.source())
		require.NoError(t, err)
		ids = append(ids, r.Snapshot.ID)
	}
	_, err := snapshot.Compare(t.Context(), a, ids[0], ids[1])
	require.True(t, awsapi.IsUnrelated(err), "%v", err)
}
