package diskdiff

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
)

func TestCopiesOfBtrfsMayBeOnLogicalVolumes(t *testing.T) {
	btrfs, ext4 := []disk.Partition{{Kind: "ext4"}, {Kind: "btrfs"}}, []disk.Partition{{Kind: "ext4"}}
	partition, volume := &disk.Layout{Partitions: btrfs}, &disk.Layout{Partitions: ext4, Volumes: btrfs}
	assert.True(t, clones([2]Disk{{Layout: volume}, {Layout: partition}}))
	assert.False(t, clones([2]Disk{{Layout: volume}, {Layout: &disk.Layout{Partitions: ext4}}}))
}
