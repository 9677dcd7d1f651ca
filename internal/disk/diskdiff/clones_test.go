package diskdiff

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
)

func TestCopiesOfBtrfsMayBeOnLogicalVolumes(t *testing.T) {
	btrfs, ext4 := []disk.Partition{{Kind: "ext4"}, {Kind: "btrfs"}}, []disk.Partition{{Kind: "ext4"}}
	with := func(l disk.Layout) Disk { return Disk{Image: &disk.Image{Layout: &l}} }
	volume := with(disk.Layout{Partitions: ext4, Volumes: btrfs})
	assert.True(t, clones([2]Disk{volume, with(disk.Layout{Partitions: btrfs})}))
	assert.False(t, clones([2]Disk{volume, with(disk.Layout{Partitions: ext4})}))
}
