package disk

import (
	"bytes"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRanges subtracts, merges and cuts lists.
func TestRanges(t *testing.T) {
	s := &ranges{}
	for _, r := range []Range{{0, 10}, {10, 5}, {15, 0}, {20, 10}, {40, 1}} {
		s.add(r.Offset, r.Length)
	}
	assert.Equal(t, []Range{{0, 15}, {20, 10}, {40, 1}}, s.list)
	assert.Equal(t, []Range{{0, 2}, {8, 2}, {28, 2}}, s.without([]Range{{40, 9}, {3, 5}, {2, 3}, {10, 18}}).list)
	assert.Equal(t, s.list, s.without(nil).list)
	assert.Equal(t, []Range{{14, 1}, {20, 5}}, within(s.list, Range{14, 11}))
	assert.Empty(t, within(s.list, Range{15, 5}))
	assert.Equal(t, []Range{{1, 9}, {20, 2}}, merged([]Range{{20, 2}, {1, 4}, {2, 1}, {5, 5}}))
	assert.Equal(t, int64(26), total(s.list))
}

// TestLongListsStaySmall has more pieces than the lists keep. Free space may be
// lost, and used space may grow, but never the reverse.
func TestLongListsStaySmall(t *testing.T) {
	free, data := &ranges{}, &extents{}
	const pieces = 3*mostRanges + 7
	for i := range int64(pieces) {
		length := int64(4096)
		if i%1000 == 0 {
			length = 20000
		}
		free.add(i<<16, length)
		data.add(i<<16, length)
	}
	assert.Less(t, len(free.list), mostRanges+2)
	assert.Less(t, len(data.list), mostRanges+2)
	for i := int64(0); i < pieces; i += 1000 {
		assert.Len(t, within(data.list, Range{i << 16, 20000}), 1)
	}
	for _, r := range free.list {
		assert.Zero(t, r.Offset%(1<<16))
		assert.LessOrEqual(t, r.Length, int64(20000))
	}
	assert.NotEmpty(t, free.list)
}

// TestReadersInParallel reads a compressed image with four workers, as an upload
// does.
func TestReadersInParallel(t *testing.T) {
	folder := t.TempDir()
	_, content := sample(t, folder)
	sh(t, folder, `qemu-img convert -f raw -c -O qcow2 disk.raw a.qcow2`)
	d, err := Open(filepath.Join(folder, "a.qcow2"))
	require.NoError(t, err)
	defer d.Close()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			p := make([]byte, BlockSize)
			for off := int64(0); off < 5*mib; off += BlockSize {
				_, err := d.ReadAt(p, off)
				assert.NoError(t, err)
				assert.True(t, bytes.Equal(content[off:off+BlockSize], p), off)
			}
		})
	}
	group.Wait()
}
