package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestADiskArrives copies the blocks that travel of disks with several file
// systems, into a disk of random bytes that is larger. It is the same disk.
func TestADiskArrives(t *testing.T) {
	files := tree(t)
	for name, table := range map[string]string{
		"GPT": `label: gpt
1 : start=2048, size=2048, type=21686148-6449-6E6F-744E-656564454649
2 : size=40M, type=U
3 : start=86017, size=50M, type=L
4 : start=200003, size=90M, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709`,
		"MBR": `label: dos
2 : start=2048, size=40M, type=ef
4 : start=86017, size=147M, type=5
5 : start=87017, size=50M
6 : start=200003, size=88M`,
	} {
		t.Run(name, func(t *testing.T) {
			disk := partitioned(t, 190, table)
			folder := filepath.Dir(disk)
			_, l := laidOut(t, disk)
			// Random bytes everywhere but in the tables.
			p := garbage()
			for _, free := range l.Free {
				put(t, disk, free.Offset, p[:min(free.Length, mib)])
			}
			first, second := 3, 4
			if name == "MBR" {
				first, second = 5, 6
			}
			loader(t, folder, 0x8664)
			inPartition(t, disk, 2, `mkfs.vfat part`+copyTo, "BOOTX64.EFI")
			inPartition(t, disk, first, `mke2fs -q -F -t ext4 -d "$1" part`, files)
			inPartition(t, disk, second, `mkfs.xfs -q part; mkdir m; mount -o loop part m; cp -a "$1"/. m; umount m`, files)
			put(t, disk, 0, []byte("\xeb\x63\x90GRUB"))
			put(t, disk, 512*40, []byte("core.img"))

			image, layout := laidOut(t, disk)
			copied := filepath.Join(folder, "copy.raw")
			blocksOnGarbage(t, image, copied)
			require.NoError(t, os.Truncate(copied, 300*mib))
			again, arrived := laidOut(t, copied)
			assert.Equal(t, summary(layout), summary(arrived))
			assert.Equal(t, Boot{BIOS: true, UEFI: true, Arch: "x86_64"}, arrived.Boot)
			assert.Equal(t, layout.Boot, arrived.Boot)
			var sum, want int64
			for n := range layout.Blocks() {
				sum++
				assert.True(t, layout.Used(n*BlockSize, BlockSize))
				a, b := make([]byte, BlockSize), make([]byte, BlockSize)
				_, err := image.ReadAt(a, n*BlockSize)
				require.NoError(t, err)
				_, err = again.ReadAt(b, n*BlockSize)
				require.NoError(t, err)
				layout.ZeroFree(a, n*BlockSize)
				assert.Equal(t, a, b, n)
			}
			for n := range image.Size() / BlockSize {
				if layout.Used(n*BlockSize, BlockSize) {
					want++
				}
			}
			assert.Equal(t, want, sum)
			assert.Less(t, sum*BlockSize, image.Size()*6/10)
			if name == "GPT" {
				// The backup is not at the end, which is no defect here.
				assert.Contains(t, sh(t, folder, `truncate -s 190M copy.raw; sgdisk -v copy.raw`), "No problems found")
			} else {
				sh(t, folder, `sfdisk -V copy.raw`)
			}
			for i, number := range []int{first, second} {
				at := arrived.at(number)
				sh(t, folder, fmt.Sprintf(`dd if=copy.raw of=part bs=1M iflag=skip_bytes,count_bytes skip=%d count=%d status=none; `, at.Offset, at.Length)+[]string{`e2fsck -fn part`, `xfs_repair -n -f part`}[i])
				got := sh(t, folder, listing, "part", "", map[bool]string{true: ",nouuid"}[i == 1])
				for _, line := range strings.Split(strings.TrimSpace(sh(t, files, `find . -type f -exec sha256sum {} +`)), "\n") {
					assert.Contains(t, got, line)
				}
			}
		})
	}
}

// TestWhatZeroFreeErases has the bytes of a deleted file in a block that is partly
// used.
func TestWhatZeroFreeErases(t *testing.T) {
	folder := t.TempDir()
	name := sparse(t, filepath.Join(folder, "disk.raw"), 48*mib)
	sh(t, folder, `mke2fs -q -F -t ext4 -b 4096 "$1"; mkdir m; mount -o loop "$1" m
for i in $(seq 200); do yes "password $i" | head -c 20000 > m/$i; done; sync -f m
for i in $(seq 2 2 200); do rm m/$i; done; umount m`, name)
	image, layout := laidOut(t, name)
	p := make([]byte, BlockSize)
	var before, after int
	for n := range layout.Blocks() {
		_, err := image.ReadAt(p, n*BlockSize)
		require.NoError(t, err)
		before += strings.Count(string(p), "password 100\n")
		layout.ZeroFree(p, n*BlockSize)
		after += strings.Count(string(p), "password 100\n")
	}
	assert.NotZero(t, before)
	assert.Zero(t, after)
}
