package disk

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// sfdisk and sgdisk judge the grown tables.
func TestGrow(t *testing.T) {
	for name, c := range map[string]struct {
		table string
		root  int
		size  int64
	}{
		"gpt, root last":        {"label: gpt\nsize=2MiB\nsize=8MiB, name=root\n", 2, 64*mib + 512},
		"gpt, root 1 is last":   {"label: gpt\n1: start=6MiB, size=8MiB\n2: start=1MiB, size=2MiB\n", 1, 64*mib + 512},
		"mbr":                   {"label: dos\nsize=2MiB\nsize=8MiB\n", 2, 64*mib + 512},
		"gpt, up to the end":    {"label: gpt\nname=root\n", 1, 64*mib + 512},
		"gpt with odd sectors":  {"label: gpt\nstart=2049, size=2014\nstart=6145, size=20001\n", 2, 64*mib + 512},
		"by a part of a sector": {"label: gpt\nsize=8MiB\n", 1, 16*mib + 100},
		"gpt, by a sector":      {"label: gpt\nstart=2048, size=30687\n", 1, 16*mib + 512},
	} {
		t.Run(name, func(t *testing.T) {
			path := partitioned(t, 16, c.table)
			_, before := laidOut(t, path)
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			place, err := before.Grow(file, c.root, c.size)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			image, after := laidOut(t, path)
			require.Empty(t, after.Notes)
			assert.Equal(t, c.size, image.Size())
			if after.Table == "gpt" {
				protected := binary.LittleEndian.Uint32([]byte(testkit.Content(t, path))[446+12:])
				assert.Equal(t, uint32(c.size/512-1), protected, "the protective MBR covers the disk")
			}
			for i, p := range before.Partitions {
				if p.Number == c.root {
					assert.Equal(t, place, after.Partitions[i].Range)
					assert.Equal(t, p.Offset, place.Offset)
					assert.Greater(t, place.End(), c.size-4*mib)
					assert.GreaterOrEqual(t, place.End(), p.End(), "the file system still fits")
					p.Range = place
				}
				assert.Equal(t, p.Range, after.Partitions[i].Range)
				assert.Equal(t, p.PartUUID, after.Partitions[i].PartUUID)
			}
			said := sh(t, t.TempDir(), `sfdisk --verify "$1"; ! sfdisk --verify "$1" 2>&1 | grep -i "not at the end\|corrupt"`, path)
			assert.Contains(t, said, "No errors detected.")
		})
	}
}

func TestGrowRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		table string
		root  int
		size  int64
		why   string
	}{
		"another partition behind": {"label: gpt\nsize=2MiB\nsize=8MiB\n", 1, 64 * mib, "is not the last: partition 2"},
		"a smaller disk":           {"label: gpt\nsize=2MiB\n", 1, 8 * mib, "cannot become smaller"},
		"a logical partition":      {"label: dos\n1: size=8MiB, type=5\n5: size=2MiB\n", 5, 64 * mib, "is a logical one"},
	} {
		t.Run(name, func(t *testing.T) {
			path := partitioned(t, 16, c.table)
			before := []byte(testkit.Content(t, path))
			_, layout := laidOut(t, path)
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			defer file.Close()
			_, err = layout.Grow(file, c.root, c.size)
			require.ErrorContains(t, err, c.why)
			after := []byte(testkit.Content(t, path))
			assert.Equal(t, before, after[:len(before)])
		})
	}
}
