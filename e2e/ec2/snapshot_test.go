package ec2

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSnapshots(t *testing.T) {
	b := newBench(t)
	defer b.close()
	id := b.describeOne(b.image(b.run(nil), "node")).Devices[0].Snapshot
	b.call("ModifySnapshotAttribute", map[string]string{
		"SnapshotId": id, "UserId.1": "210987654321", "CreateVolumePermission.Add.1.UserId": "210987654321",
	}, nil)
	var found describeSnapshotsOut
	b.call("DescribeSnapshots", map[string]string{"Filter.1.Name": "snapshot-id", "Filter.1.Value.1": id}, &found)
	require.Len(t, found.Snapshots, 1)
	assert.Equal(t, "completed", found.Snapshots[0].State)
	const others = "snap-00000000000000001"
	b.refused("UnauthorizedOperation", "ModifySnapshotAttribute", map[string]string{"SnapshotId": others})
	b.refused("UnauthorizedOperation", "DeleteSnapshot", map[string]string{"SnapshotId": others})
	b.refused("InvalidSnapshot.NotFound", "DescribeSnapshots", map[string]string{"SnapshotId.1": "snap-0"})
}
