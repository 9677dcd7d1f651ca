package disk

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// partitioned makes a disk of size MiB with a table in sfdisk's language.
func partitioned(t *testing.T, size int64, table string) string {
	t.Helper()
	folder := t.TempDir()
	name := sparse(t, filepath.Join(folder, "disk.raw"), size*mib)
	sh(t, folder, `printf '%s\n' "$1" | sfdisk -q disk.raw`, table)
	return name
}

// inPartition makes a file system in a partition, by a script on the file "part".
func inPartition(t *testing.T, disk string, number int, script string, args ...string) {
	t.Helper()
	folder := filepath.Dir(disk)
	d, l := laidOut(t, disk)
	p := l.at(number)
	require.NoError(t, d.Close())
	part := sparse(t, filepath.Join(folder, "part"), p.Length)
	sh(t, folder, script, args...)
	content := []byte(testkit.Content(t, part))
	put(t, disk, p.Offset, content)
}

// summary is one line for each partition: number, MiB, role, kind, label, name.
func summary(l *Layout) []string {
	lines := []string{}
	for _, p := range l.Partitions {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%d %d+%d %s|%s|%s|%s", p.Number, p.Offset/mib, p.Length/mib, p.Role, p.Kind, p.Label, p.Name), "|"))
	}
	return lines
}

// TestGPT has a usual disk: a BIOS boot partition, an EFI system partition, /boot
// and a root. Numbers are not in the order of the disk.
func TestGPT(t *testing.T) {
	name := partitioned(t, 200, `label: gpt
3 : start=2048, size=2048, type=21686148-6449-6E6F-744E-656564454649
2 : size=40M, type=U, name=ESP
1 : size=100M, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709, name=root
5 : start=300000, size=10M, type=swap`)
	inPartition(t, name, 1, `mke2fs -q -F -t ext4 -L cloudimg-rootfs part`)
	inPartition(t, name, 2, `mkfs.vfat -F 16 -n EFI part; head -c 2000 /dev/zero > x; mcopy -i part x ::`)
	inPartition(t, name, 5, `mkswap -q -L paging part`)
	d, l := laidOut(t, name)
	assert.Equal(t, "gpt", l.Table)
	assert.Equal(t, 512, l.SectorSize)
	assert.Equal(t, []string{"1 42+100 root|ext4|cloudimg-rootfs|root", "2 2+40 EFI system|vfat|EFI|ESP", "3 1+1 BIOS boot|empty", "5 146+9 swap|swap|paging"}, summary(l))
	assert.Equal(t, []string{"", "", "no file system", "free space in swap is not read"}, []string{l.at(1).Whole, l.at(2).Whole, l.at(3).Whole, l.at(5).Whole})
	// The gap before partition 5 is free, and so is the gap after it. The table,
	// its copy and partitions without a file system travel.
	assert.False(t, l.Used(143*mib, 2*mib))
	assert.False(t, l.Used(160*mib, 39*mib))
	assert.True(t, l.Used(0, 512))
	assert.True(t, l.Used(mib-1, 1))
	assert.True(t, l.Used(200*mib-512, 512))
	assert.True(t, l.Used(200*mib-33*512, 512))
	assert.False(t, l.Used(200*mib-34*512, 512))
	assert.True(t, l.Used(mib, mib))
	assert.True(t, l.Used(150*mib, 1))
	// Nothing after the disk is used.
	assert.False(t, l.Used(d.Size(), gib))
	root, err := l.Root(0)
	require.NoError(t, err)
	assert.Equal(t, 1, root.Number)
	var blocks []int64
	for n := range l.Blocks() {
		blocks = append(blocks, n)
	}
	assert.Equal(t, []int64{0, 1, 2, 3}, blocks[:4])
	assert.Equal(t, int64(399), blocks[len(blocks)-1])
	for n := range l.Blocks() {
		assert.Equal(t, int64(0), n)
		break
	}
	assert.Empty(t, l.Notes[1:])
	assert.Equal(t, []string{`the EFI system partition 2 has no \EFI\BOOT\BOOTX64.EFI or BOOTAA64.EFI; EC2 starts without boot variables, so UEFI does not boot this disk`}, l.Notes)
}

// TestMBR has primary and logical partitions, and a gap that GRUB uses.
func TestMBR(t *testing.T) {
	name := partitioned(t, 100, `label: dos
1 : start=8192, size=20M, type=83, bootable
2 : start=60000, size=60M, type=5
5 : start=62048, size=10M, type=83
6 : start=100000, type=8e
3 : start=190000, size=2M, type=82`)
	inPartition(t, name, 5, `mke2fs -q -F -t ext4 part`)
	_, l := laidOut(t, name)
	assert.Equal(t, "mbr", l.Table)
	assert.Equal(t, []string{"1 4+20 |empty", "3 92+2 swap|empty", "5 30+9 |ext4", "6 48+40 LVM|empty"}, summary(l),
		"the last one ends where the extended partition ends")
	assert.True(t, l.Used(0, 512))
	assert.True(t, l.Used(4*mib-1, 1), "GRUB's core.img is somewhere before the first partition")
	assert.True(t, l.Used(60000*512, 512), "the first boot record of the extended partition")
	assert.False(t, l.Used(95*mib, 5*mib))
	root, err := l.Root(0)
	require.NoError(t, err)
	assert.Equal(t, 5, root.Number)
}

// TestSectorsOf4096Bytes has a table for such sectors.
func TestSectorsOf4096Bytes(t *testing.T) {
	folder := t.TempDir()
	name := sparse(t, filepath.Join(folder, "disk.raw"), 64*mib)
	sh(t, folder, `d=$(losetup -f --show -b 4096 disk.raw); printf 'label: gpt\n1 : size=20M, type=L\n' | sfdisk -q $d || failed=1; losetup -d $d; [ -z "${failed-}" ]`)
	_, l := laidOut(t, name)
	assert.Equal(t, 4096, l.SectorSize)
	assert.Equal(t, []string{"1 1+20 |empty"}, summary(l))
	assert.Equal(t, []string{"the partition table assumes sectors of 4096 bytes, but EBS volumes have sectors of 512 bytes: EC2 cannot boot this disk"}, l.Notes)
	assert.True(t, l.Used(64*mib-4096, 1))
	assert.True(t, l.Used(64*mib-5*4096, 1))
}

// TestHybridMBR has a partition in the MBR that the GPT lacks, too.
func TestHybridMBR(t *testing.T) {
	name := partitioned(t, 64, "label: gpt\n1 : start=2048, size=10M\n2 : size=10M")
	sh(t, filepath.Dir(name), `sgdisk -h 1 disk.raw`)
	entry := make([]byte, 16)
	copy(entry[4:], []byte{0x83, 0, 0, 0, 0, 160, 1, 0, 0, 16, 0, 0}) // from 52 MiB, 2 MiB
	put(t, name, 446+32, entry)
	_, l := laidOut(t, name)
	assert.Equal(t, "gpt", l.Table)
	assert.Equal(t, []string{"1 1+10 |empty", "2 11+10 |empty"}, summary(l))
	assert.Equal(t, []string{"the disk has a hybrid MBR; the GPT is used"}, l.Notes)
	assert.True(t, l.Used(53*mib, 1))
	assert.False(t, l.Used(55*mib, mib))
}

// putHeader changes the primary GPT header, whose checksum stays right.
func putHeader(t *testing.T, name string, change func(p []byte)) {
	t.Helper()
	p := []byte(testkit.Content(t, name))[512:604]
	change(p)
	clear(p[16:20])
	binary.LittleEndian.PutUint32(p[16:], crc32.ChecksumIEEE(p))
	put(t, name, 512, p)
}

// TestBadTables damages a disk of 64 MiB with two partitions.
func TestBadTables(t *testing.T) {
	zeros := func(n int) []byte { return make([]byte, n) }
	for name, c := range map[string]struct {
		change func(t *testing.T, name string)
		want   string
	}{
		"truncated": {func(t *testing.T, name string) { require.NoError(t, os.Truncate(name, 63*mib)) },
			"the disk is truncated: the backup GPT header is at byte 67108352, but the disk has 66060288 bytes; copy the file again"},
		"damaged header": {func(t *testing.T, name string) { put(t, name, 512+40, []byte{9}) },
			"the primary GPT header at byte 512 is damaged: wrong checksum of the header; repair the table with gdisk (commands r, b, w), or build the disk again"},
		"damaged entries": {func(t *testing.T, name string) { put(t, name, 1024+40, []byte{9}) },
			"the primary GPT header at byte 512 is damaged: wrong checksum of the entries; repair the table with gdisk (commands r, b, w), or build the disk again"},
		"only the backup": {func(t *testing.T, name string) { put(t, name, 512, zeros(512)) },
			"the primary GPT header at byte 512 is missing, but the backup at the end of the disk exists; repair the table with gdisk (commands r, b, w), or build the disk again"},
		"no header": {func(t *testing.T, name string) { put(t, name, 512, zeros(512)); put(t, name, 64*mib-512, zeros(512)) },
			"the disk has a protective MBR, but the GPT header after it is missing; repair the table with gdisk (commands r, b, w), or build the disk again"},
		"too many entries": {func(t *testing.T, name string) {
			putHeader(t, name, func(p []byte) { binary.LittleEndian.PutUint32(p[80:], mostEntries/128+1) })
		}, "the primary GPT header at byte 512 is damaged: 8193 entries of 128 bytes; " +
			"repair the table with gdisk (commands r, b, w), or build the disk again"},
		"the number of a volume": {func(t *testing.T, name string) {
			table := make([]byte, 8192*128)
			copy(table[1000*128:], testkit.Content(t, name)[1024:][:128])
			put(t, name, 1024, table)
			putHeader(t, name, func(p []byte) {
				binary.LittleEndian.PutUint32(p[80:], 8192)
				binary.LittleEndian.PutUint32(p[88:], crc32.ChecksumIEEE(table))
			})
		}, "the primary GPT header at byte 512 is damaged: partition 1001 from sector 2048 to 22527; " +
			"repair the table with gdisk (commands r, b, w), or build the disk again"},
		"overlap": {func(t *testing.T, name string) {
			put(t, name, 446, []byte{0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0x83, 0, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0})
		}, "the partitions 1 and 2 overlap; build the disk again"},
		"MBR beyond the end": {func(t *testing.T, name string) {
			put(t, name, 446, []byte{0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 8, 0})
		}, "the disk is truncated: partition 1 ends at byte 269484032, but the disk has 67108864 bytes; copy the file again"},
		"two extended partitions": {func(t *testing.T, name string) {
			put(t, name, 446, []byte{0, 0, 0, 0, 5, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 18, 0, 0, 0, 8, 0, 0})
			put(t, name, 2048*512+510, []byte{0x55, 0xaa})
		}, "the MBR has two extended partitions; build the disk again"},
		"no logical partitions": {func(t *testing.T, name string) {
			put(t, name, 446, []byte{0, 0, 0, 0, 5, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0})
		}, "extended partition 1: no boot record at byte 1048576; build the disk again"},
		"a circle of boot records": {func(t *testing.T, name string) {
			put(t, name, 446, []byte{0, 0, 0, 0, 5, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0})
			put(t, name, 2048*512+446+16, []byte{0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0})
			put(t, name, 2048*512+510, []byte{0x55, 0xaa})
		}, "extended partition 1: the boot record at byte 1048576 has the next one at byte 1048576; build the disk again"},
		"in the table": {func(t *testing.T, name string) {
			put(t, name, 446, []byte{0, 0, 0, 0, 0x83, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0})
		}, "partition 1 begins at byte 0, in the partition table; build the disk again"},
		"empty table": {func(t *testing.T, name string) { sh(t, filepath.Dir(name), `sgdisk -o disk.raw`) },
			"the partition table is empty; build the disk again"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := partitioned(t, 64, "label: gpt\n1 : start=2048, size=10M\n2 : size=10M")
			c.change(t, disk)
			_, err := Open(disk)
			assert.EqualError(t, err, "reading the partitions of the disk image "+disk+": "+c.want)
		})
	}
}

// TestTablesWithNotes are read, but a person should see something.
func TestTablesWithNotes(t *testing.T) {
	name := partitioned(t, 64, "label: gpt\n1 : start=2048, size=10M")
	put(t, name, 64*mib-512, make([]byte, 512))
	_, l := laidOut(t, name)
	assert.Equal(t, []string{"the backup GPT header at byte 67108352 is damaged (no signature): repair it with sgdisk -e"}, l.Notes)

	name = partitioned(t, 64, "label: gpt\n1 : start=2048, size=10M")
	put(t, name, 0, make([]byte, 512))
	_, l = laidOut(t, name)
	assert.Equal(t, []string{"the disk has a GPT without a protective MBR: Linux does not read this table; write one with gdisk (command w)"}, l.Notes)

	// A partition may end with the disk.
	name = partitioned(t, 64, "label: dos\n1 : start=2048")
	_, l = laidOut(t, name)
	assert.Empty(t, l.Notes)
	assert.Equal(t, int64(64*mib), l.at(1).End())

	// A disk that was enlarged has the backup in its middle.
	name = partitioned(t, 64, "label: gpt\n1 : start=2048, size=10M")
	require.NoError(t, os.Truncate(name, 100*mib))
	_, l = laidOut(t, name)
	assert.Empty(t, l.Notes)
	assert.True(t, l.Used(64*mib-512, 512))
	assert.False(t, l.Used(64*mib, 36*mib))
}

// TestContents recognizes what other programs make.
func TestContents(t *testing.T) {
	for want, script := range table[string](t, "contents.yaml") {
		t.Run(want, func(t *testing.T) {
			folder := t.TempDir()
			name := sparse(t, filepath.Join(folder, "part"), 40*mib)
			sh(t, folder, script)
			_, l := laidOut(t, name)
			assert.Equal(t, []string{strings.TrimRight(fmt.Sprintf("0 0+%d |%s", l.Partitions[0].Length/mib, want), "|")}, summary(l))
			assert.Equal(t, "", l.Table)
			_, err := l.Root(0)
			assert.Equal(t, isLinux(l.Partitions[0].Kind), err == nil)
		})
	}
	// LVM reads labels in the first four sectors.
	name := sparse(t, filepath.Join(t.TempDir(), "part"), 40*mib)
	put(t, name, 4*512, []byte("LABELONE"))
	put(t, name, 4*512+24, []byte("LVM2 001"))
	_, l := laidOut(t, name)
	assert.Empty(t, l.Partitions[0].Kind)
}

// TestRAIDMembers recognizes every version of md's metadata, also with a file
// system at the start.
func TestRAIDMembers(t *testing.T) {
	const size = 40 * mib
	for _, at := range []int64{0, 4096, size - 8192, size - 65536} {
		folder := t.TempDir()
		name := sparse(t, filepath.Join(folder, "part"), size)
		sh(t, folder, `mke2fs -q -F -t ext4 part 30M`)
		put(t, name, at, []byte("\xfc\x4e\x2b\xa9"))
		_, l := laidOut(t, name)
		assert.Equal(t, KindRAID, l.Partitions[0].Kind, at)
		assert.Empty(t, l.Free)
		_, err := l.Root(0)
		assert.EqualError(t, err, "no root file system found: partition RAID member, 41.9 MB may have it, but a file system inside RAID member is not read; build the image without that, or mount its root read-only and run eksnode audit --root")
	}
}

// TestBytesAfterAFileSystemTravel keeps hashes of dm-verity, which are there on
// Flatcar.
func TestBytesAfterAFileSystemTravel(t *testing.T) {
	folder := t.TempDir()
	name := sparse(t, filepath.Join(folder, "disk.raw"), 40*mib)
	sh(t, folder, `mke2fs -q -F -t ext4 disk.raw 30M`)
	_, l := laidOut(t, name)
	assert.False(t, l.Used(31*mib, 9*mib), "a hole")
	put(t, name, 35*mib, []byte("hashes"))
	_, l = laidOut(t, name)
	assert.True(t, l.Used(35*mib, 6))
}

// TestOtherDevicesAreSeen has superblocks that name other devices.
func TestOtherDevicesAreSeen(t *testing.T) {
	bytesOf := func(at int64, text string) func(string) { return func(name string) { put(t, name, at, []byte(text)) } }
	ext4 := func(change string) func(string) {
		return func(name string) { sh(t, ".", `mke2fs -q -t ext4 "$1"; debugfs -w -R "`+change+`" "$1"`, name) }
	}
	for name, c := range map[string]struct {
		make       []func(string)
		kind, want string
	}{
		"ext4":               {[]func(string){ext4("ssv mount_opts errors=panic")}, "ext4", ""},
		"ext4, journal":      {[]func(string){ext4("ssv journal_inum 0")}, "ext4", "its journal is on another device"},
		"ext4, journal path": {[]func(string){ext4("ssv mount_opts journal_path=/dev/vda")}, "ext4", "its journal is on another device"},
		"btrfs":              {[]func(string){bytesOf(64<<10+64, "_BHRfS_M"), bytesOf(64<<10+136, "\x01")}, "btrfs", ""},
		"btrfs, devices":     {[]func(string){bytesOf(64<<10+64, "_BHRfS_M"), bytesOf(64<<10+136, "\x02")}, "btrfs", "its data is on 2 devices"},
		"erofs":              {[]func(string){bytesOf(1024, "\xe2\xe1\xf5\xe0"), bytesOf(1024+86, "\x01")}, "erofs", ""},
		"erofs, devices":     {[]func(string){bytesOf(1024, "\xe2\xe1\xf5\xe0"), bytesOf(1024+80, "\x08"), bytesOf(1024+86, "\x01")}, "erofs", "its data is on 1 more devices"},
		"f2fs":               {[]func(string){bytesOf(1024, "\x10\x20\xf5\xf2"), bytesOf(5120, "\x10\x20\xf5\xf2")}, "f2fs", ""},
		"f2fs, devices":      {[]func(string){bytesOf(1024, "\x10\x20\xf5\xf2"), bytesOf(1024+2201, "/dev/vda")}, "f2fs", "its data is on several devices"},
		"f2fs, second":       {[]func(string){bytesOf(1024, "\x10\x20\xf5\xf2"), bytesOf(5120, "\x10\x20\xf5\xf2"), bytesOf(5120+2201, "/dev/vda")}, "f2fs", "its data is on several devices"},
	} {
		t.Run(name, func(t *testing.T) {
			path := sparse(t, filepath.Join(t.TempDir(), "disk"), 64*mib)
			for _, change := range c.make {
				change(path)
			}
			_, layout := laidOut(t, path)
			assert.Equal(t, c.kind, layout.Partitions[0].Kind)
			assert.Equal(t, c.want, layout.Partitions[0].Elsewhere)
		})
	}
}
