package machine

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDiskHead(t *testing.T) {
	boot := bytes.Repeat([]byte{0xb0}, sectorSize)
	core := bytes.Repeat([]byte{0xc0}, 1000)
	head, err := diskHead(boot, core, 4<<30+partitionStart)
	require.NoError(t, err)
	require.Len(t, head, sectorSize+len(core))
	assert.Equal(t, boot[:mbrCodeSize], head[:mbrCodeSize])
	assert.Equal(t, core, head[sectorSize:])
	assert.Equal(t, []byte{0x55, 0xaa}, head[510:512])
	entry := head[mbrTable : mbrTable+16]
	assert.EqualValues(t, 0x80, entry[0], "active")
	assert.EqualValues(t, 0x83, entry[4], "type")
	assert.EqualValues(t, 2048, binary.LittleEndian.Uint32(entry[8:]), "first sector")
	assert.EqualValues(t, 4<<30/512, binary.LittleEndian.Uint32(entry[12:]), "sectors")
	assert.Equal(t, make([]byte, 48), head[mbrTable+16:510], "the other partitions")
}

func TestDiskHeadIsRefused(t *testing.T) {
	_, err := diskHead(make([]byte, 100), nil, 4<<30)
	assert.EqualError(t, err, "grub's boot.img has 100 bytes, not a sector")
	_, err = diskHead(make([]byte, 512), make([]byte, partitionStart), 4<<30)
	assert.EqualError(t, err, "grub's core.img has 1048576 bytes and does not fit before the partition")
}

func TestImageFormat(t *testing.T) {
	for path, want := range map[string]string{
		"image.qcow2": "qcow2", "image.raw": "raw", "image": "raw", "": "raw", "a.qcow2/image.img": "raw",
	} {
		assert.Equal(t, want, imageFormat(path), path)
	}
}
