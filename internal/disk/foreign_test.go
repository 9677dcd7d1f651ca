package disk

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// TestIdentifiersAreThoseOfBlkid compares labels and identifiers with those that blkid
// and sfdisk print, because an fstab uses them.
func TestIdentifiersAreThoseOfBlkid(t *testing.T) {
	for kind, script := range map[string]string{
		"ext2":  `mke2fs -q -F -t ext2 -L "a b" part`,
		"ext4":  `mke2fs -q -F -t ext4 -L root part`,
		"xfs":   `mkfs.xfs -q -L "x/y" part`,
		"btrfs": `truncate -s 120M part; mkfs.btrfs -q -L data part`,
		"FAT12": `mkfs.vfat -F 12 -s 64 -n EFI part`,
		"FAT16": `mkfs.vfat -F 16 -n EFI part`,
		"FAT32": `mkfs.vfat -F 32 -s 1 -n "E F I" part`,
	} {
		t.Run(kind, func(t *testing.T) {
			folder := t.TempDir()
			name := sparse(t, filepath.Join(folder, "part"), 64*mib)
			sh(t, folder, script)
			_, l := laidOut(t, name)
			p := l.Partitions[0]
			assert.Equal(t, sh(t, folder, `blkid -p -o value -s UUID -s LABEL -s TYPE part | sort`),
				sh(t, folder, `printf '%s\n' "$@" | sort`, p.UUID, p.Label, p.Kind))
		})
	}
	for label, table := range map[string]string{
		"gpt": "label: gpt\n1 : start=2048, size=10M, name=one\n5 : size=10M, name=\"two words\"",
		"dos": "label: dos\nlabel-id: 0xC0FFEE01\n1 : start=2048, size=10M\n2 : size=30M, type=5\n5 : size=10M",
	} {
		t.Run(label, func(t *testing.T) {
			name := partitioned(t, 64, table)
			_, l := laidOut(t, name)
			require.Len(t, l.Partitions, 2)
			// libblkid prints the identifiers as in /dev/disk/by-partuuid.
			for _, p := range l.Partitions {
				if label == "gpt" {
					want := strings.TrimSpace(sh(t, filepath.Dir(name), `sfdisk --part-uuid disk.raw "$1"`, fmt.Sprint(p.Number)))
					assert.Equal(t, strings.ToLower(want), p.PartUUID)
				} else {
					assert.Equal(t, fmt.Sprintf("c0ffee01-%02x", p.Number), p.PartUUID)
				}
			}
		})
	}
}

// TestQcow2WithMoreThanADisk has images with snapshots, bitmaps and damaged reference
// counts, which do not change the disk, and every size of clusters.
func TestQcow2WithMoreThanADisk(t *testing.T) {
	scripts := map[string]string{
		"snapshots":        `qemu-img convert -O qcow2 disk.raw a; qemu-img snapshot -c one a; qemu-io -f qcow2 -c "write -P 7 1M 100k" -c "write -z 4M 64k" -c "discard 3M 64k" a; qemu-img snapshot -c two a`,
		"bitmaps":          `qemu-img convert -O qcow2 disk.raw a; qemu-img bitmap --add a one; qemu-io -f qcow2 -c "write -P 7 1M 1M" a`,
		"reference counts": `qemu-img convert -O qcow2 disk.raw a; printf '\377\377\377' | dd of=a bs=1 seek=131074 conv=notrunc status=none`,
		"more than L1":     `qemu-img convert -O qcow2 disk.raw a; qemu-img resize -q a 600M`,
		"last cluster":     `qemu-img convert -O qcow2 -o cluster_size=2M,preallocation=falloc disk.raw a`,
		"data after all":   `qemu-img convert -O qcow2 disk.raw a; head -c 100000 /dev/urandom >> a`,
	}
	for bits := 9; bits <= 21; bits++ {
		scripts[fmt.Sprintf("clusters of %d bytes", 1<<bits)] = fmt.Sprintf(`qemu-img convert -O qcow2 -o cluster_size=%d disk.raw a; qemu-io -f qcow2 -c "write -z 3M 512k" -c "write -P 9 5M 300" a`, 1<<bits)
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			sample(t, folder)
			sh(t, folder, script+`; qemu-img convert -f qcow2 -O raw a want.raw`)
			want := []byte(testkit.Content(t, filepath.Join(folder, "want.raw")))
			d, err := Open(filepath.Join(folder, "a"))
			require.NoError(t, err)
			defer d.Close()
			require.Equal(t, int64(len(want)), d.Size())
			got := make([]byte, len(want))
			_, err = d.ReadAt(got, 0)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(want, got))
		})
	}
}

// TestLargeSparseDisks has disks beyond 2 TiB, whose tables and trees fit into memory.
func TestLargeSparseDisks(t *testing.T) {
	folder := t.TempDir()
	name := sparse(t, filepath.Join(folder, "disk.raw"), 3<<40)
	sh(t, folder, `printf 'label: gpt\n1 : start=2048, size=100M\n2 : start=6000000000, size=100M\n' | sfdisk -q disk.raw`)
	put(t, name, 6000000000*512+1080, []byte{0x53, 0xef}) // a superblock that is damaged
	d, l := laidOut(t, name)
	assert.Equal(t, int64(3072), d.SizeGiB())
	assert.Equal(t, int64(6000000000*512), l.at(2).Offset)
	assert.Equal(t, "ext2", l.at(2).Kind)
	assert.NotEmpty(t, l.at(2).Whole)
	assert.True(t, l.Used(3<<40-512, 512))
	assert.Less(t, l.UsedBytes(), int64(300*mib))
}
