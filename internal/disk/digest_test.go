package disk

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func digest(t *testing.T, path string) string {
	t.Helper()
	image, _ := laidOut(t, path)
	sum, err := image.Digest(t.Context())
	require.NoError(t, err)
	return sum
}

// The digest is that of the content: it is the same in every format, for a larger disk,
// and with any bytes in free space. Each used byte changes it.
func TestADigestIsOfTheContent(t *testing.T) {
	path := partitioned(t, 190, `label: gpt
1 : start=2048, size=40M, type=U
2 : start=86017, size=50M, type=L
3 : start=200003, size=90M, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709`)
	folder, files := filepath.Dir(path), tree(t)
	loader(t, folder, 0x8664)
	inPartition(t, path, 1, `mkfs.vfat part`+copyTo, "BOOTX64.EFI")
	inPartition(t, path, 2, `mke2fs -q -F -t ext4 -d "$1" part`, files)
	inPartition(t, path, 3, `mkfs.xfs -q part; mkdir m; mount -o loop part m; cp -a "$1"/. m; umount m`, files)
	want := digest(t, path)
	assert.Regexp(t, "^sha256:[0-9a-f]{64}$", want)

	image, layout := laidOut(t, path)
	dirty := filepath.Join(folder, "dirty.raw")
	usedOnGarbage(t, image, dirty)
	assert.Equal(t, want, digest(t, dirty), "bytes in free space")
	for name, script := range map[string]string{
		"compressed qcow2": `qemu-img convert -c -O qcow2 "$1" a`,
		"fixed VHD":        `qemu-img convert -O vpc -o subformat=fixed,force_size=on "$1" a`,
		"no holes":         `dd if="$1" of=a bs=1M status=none`,
		"a larger volume":  `cp "$1" a; truncate -s 1G a`,
	} {
		sh(t, folder, script, path)
		assert.Equal(t, want, digest(t, filepath.Join(folder, "a")), name)
	}

	changed := filepath.Join(folder, "changed.raw")
	for _, p := range layout.Partitions {
		sh(t, folder, `cp dirty.raw changed.raw`)
		at := p.Offset + 1024 + 120 // in a superblock, or in a FAT's boot code
		put(t, changed, at, []byte("flipped"))
		require.True(t, layout.Used(at, 7))
		assert.NotEqual(t, want, digest(t, changed), p.Number)
	}
}

// The reference of the digest's text is the program of docs/design/digest.md.
func TestADigestCanBeComputedByOthers(t *testing.T) {
	folder := t.TempDir()
	path := sparse(t, filepath.Join(folder, "disk.raw"), 5*mib+4096)
	put(t, path, 1*mib+300, garbage()[:900<<10])
	put(t, path, 5*mib+100, []byte("the last block is short"))
	want := sh(t, folder, `{ echo eksnode-disk 1; for n in $(seq 0 10); do
  dd if="$1" bs=512K skip=$n count=1 conv=sync status=none > block
  tr -d '\0' < block | grep -q . && echo "$n $(sha256sum < block | cut -d' ' -f1)" || :
done; } | sha256sum`, path)
	assert.Equal(t, "sha256:"+strings.Fields(want)[0], digest(t, path))
}
