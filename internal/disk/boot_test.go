package disk

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// loader writes a program with a PE header for a machine, and returns its folder.
func loader(t *testing.T, folder string, machine uint16) {
	t.Helper()
	p := make([]byte, 20000)
	copy(p, "MZ")
	p[60] = 0x80
	copy(p[0x80:], "PE\x00\x00")
	binary.LittleEndian.PutUint16(p[0x84:], machine)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "loader"), p, 0o644))
}

const (
	// copyTo copies the loader to $1 in the FAT file system "part".
	copyTo = `; mmd -i part ::/EFI ::/EFI/debian ::/EFI/BOOT; mcopy -i part loader ::/EFI/debian/shimx64.efi; mcopy -i part loader "::/EFI/BOOT/$1"`
	disks  = "label: gpt\n1 : start=2048, size=90M, type=U\n2 : size=20M, type=L"
)

// TestUEFI finds the loader in every kind of FAT.
func TestUEFI(t *testing.T) {
	for name, c := range map[string]struct {
		script, file string
		machine      uint16
		want         Boot
	}{
		"FAT32":                  {`mkfs.vfat -F 32 part`, "BOOTX64.EFI", 0x8664, Boot{UEFI: true, Arch: "x86_64"}},
		"FAT32, small clusters":  {`mkfs.vfat -F 32 -s 1 part`, "BOOTX64.EFI", 0x8664, Boot{UEFI: true, Arch: "x86_64"}},
		"FAT16":                  {`mkfs.vfat -F 16 part`, "BOOTAA64.EFI", 0xaa64, Boot{UEFI: true, Arch: "arm64"}},
		"FAT12":                  {`mkfs.vfat -F 12 -s 64 part`, "BOOTX64.EFI", 0x8664, Boot{UEFI: true, Arch: "x86_64"}},
		"FAT12, small":           {`truncate -s 1M part; mkfs.vfat -F 12 -s 1 part`, "BOOTX64.EFI", 0x8664, Boot{UEFI: true, Arch: "x86_64"}},
		"sectors of 4 KiB":       {`mkfs.vfat -S 4096 part`, "BOOTX64.EFI", 0x8664, Boot{UEFI: true, Arch: "x86_64"}},
		"names in lower case":    {`mkfs.vfat part`, "bootx64.efi", 0x8664, Boot{UEFI: true, Arch: "x86_64"}},
		"other architecture":     {`mkfs.vfat part`, "BOOTIA32.EFI", 0x14c, Boot{}},
		"loader of another kind": {`mkfs.vfat part`, "BOOTX64.EFI", 0xaa64, Boot{}},
		"folder of many files":   {`mkfs.vfat -F 32 -s 1 part; mmd -i part ::/EFI ::/EFI/BOOT; mkdir many; for i in $(seq 300); do : > many/file$i; done; mcopy -i part many/* ::/EFI/BOOT`, "BOOTX64.EFI", 0x8664, Boot{UEFI: true, Arch: "x86_64"}},
	} {
		t.Run(name, func(t *testing.T) {
			disk := partitioned(t, 120, disks)
			loader(t, filepath.Dir(disk), c.machine)
			script := copyTo
			if strings.Contains(c.script, "mmd") {
				script = `; mcopy -i part loader "::/EFI/BOOT/$1"`
			}
			inPartition(t, disk, 1, c.script+script, c.file)
			_, l := laidOut(t, disk)
			assert.Equal(t, c.want, l.Boot)
			if c.want.UEFI {
				assert.Equal(t, "uefi", l.Boot.Mode())
				assert.Empty(t, l.Notes)
			} else {
				assert.Empty(t, l.Boot.Mode())
			}
		})
	}
}

// TestLoadersOfOtherLayouts has EFI system partitions as distributions and tools lay them
// out.
func TestLoadersOfOtherLayouts(t *testing.T) {
	const (
		note    = `the EFI system partition 1 has no \EFI\BOOT\BOOTX64.EFI or BOOTAA64.EFI; EC2 starts without boot variables, so UEFI does not boot this disk`
		folders = `mkfs.vfat part; mmd -i part ::/EFI ::/EFI/BOOT ::/EFI/Linux ::/EFI/systemd ::/loader; `
	)
	for name, c := range map[string]struct {
		table, script string
		want          Boot
		notes         []string
	}{
		"systemd-boot and a kernel image": {disks, folders + `for f in BOOT/BOOTX64.EFI systemd/systemd-bootx64.efi Linux/debian-6.12.efi; do mcopy -i part loader ::/EFI/$f; done`, Boot{UEFI: true, Arch: "x86_64"}, nil},
		"a kernel image alone":            {disks, folders + `mcopy -i part loader ::/EFI/BOOT/BOOTX64.EFI`, Boot{UEFI: true, Arch: "x86_64"}, nil},
		"no default loader":               {disks, folders + `mcopy -i part loader ::/EFI/Linux/debian-6.12.efi`, Boot{}, []string{note}},
		"shim and fallback":               {disks, folders + `for f in BOOTX64.EFI fbx64.efi mmx64.efi grubx64.efi; do mcopy -i part loader ::/EFI/BOOT/$f; done`, Boot{UEFI: true, Arch: "x86_64"}, nil},
		"an MBR":                          {"label: dos\n1 : start=2048, size=90M, type=ef\n2 : size=20M", folders + `mcopy -i part loader ::/EFI/BOOT/BOOTX64.EFI`, Boot{UEFI: true, Arch: "x86_64"}, nil},
		"an MBR, another type":            {"label: dos\n1 : start=2048, size=90M, type=c\n2 : size=20M", folders + `mcopy -i part loader ::/EFI/BOOT/BOOTX64.EFI`, Boot{UEFI: true, Arch: "x86_64"}, nil},
		"a loader that was cut off":       {disks, folders + `head -c 60 loader > cut; mcopy -i part cut ::/EFI/BOOT/BOOTX64.EFI`, Boot{}, []string{`partition 1: \EFI\BOOT\BOOTX64.EFI is no program for x86_64`, note}},
		"two architectures": {disks, folders + `mcopy -i part loader ::/EFI/BOOT/BOOTX64.EFI; printf '\144\252' | dd of=loader bs=1 seek=132 conv=notrunc status=none; mcopy -i part loader ::/EFI/BOOT/BOOTAA64.EFI`,
			Boot{UEFI: true}, []string{"the disk has loaders for two architectures"}},
	} {
		t.Run(name, func(t *testing.T) {
			disk := partitioned(t, 120, c.table)
			loader(t, filepath.Dir(disk), 0x8664)
			inPartition(t, disk, 1, c.script)
			_, l := laidOut(t, disk)
			assert.Equal(t, c.want, l.Boot)
			assert.Equal(t, c.notes, l.Notes)
		})
	}
}

// The header of a program may end with the part that was read, but not after it.
func TestShortPrograms(t *testing.T) {
	for _, c := range []struct {
		length, header int
		found          bool
	}{{64, 50, true}, {70, 64, true}, {69, 64, false}, {63, 50, false}} {
		head := make([]byte, 70)
		copy(head, "MZ")
		head[60] = byte(c.header)
		copy(head[c.header:], "PE\x00\x00\x64\x86")
		machine, found := machineOf(head[:c.length])
		assert.Equal(t, c.found, found, c)
		assert.Equal(t, c.found, machine == 0x8664, c)
	}
}

// TestBIOS has boot code of several programs.
func TestBIOS(t *testing.T) {
	grub := append([]byte("\xeb\x63\x90"), []byte(strings.Repeat("\x00", 380)+"GRUB \x00Geom\x00Hard Disk\x00Read\x00 Error\r\n\x00")...)
	for name, c := range map[string]struct {
		code []byte
		efi  bool
		mode string
	}{
		"no code":                      {nil, false, ""},
		"GRUB":                         {grub, false, "legacy-bios"},
		"GRUB and UEFI":                {grub, true, "uefi-preferred"},
		"syslinux":                     {[]byte("\x33\xc0\xfa\x8eMissing OS\r\n"), true, "uefi-preferred"},
		"parted's code":                {[]byte(partedStub + "\x00\x00\xb8"), false, ""},
		"parted's code and UEFI":       {[]byte(partedStub + "\x00\x00\xb8"), true, "uefi"},
		"an unknown loader":            {[]byte("\xeb\x10custom"), false, "legacy-bios"},
		"an unknown loader, with UEFI": {[]byte("\xeb\x10custom"), true, "uefi"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := partitioned(t, 120, disks)
			if c.efi {
				loader(t, filepath.Dir(disk), 0x8664)
				inPartition(t, disk, 1, `mkfs.vfat part`+copyTo, "BOOTX64.EFI")
			}
			put(t, disk, 0, c.code)
			_, l := laidOut(t, disk)
			assert.Equal(t, c.mode, l.Boot.Mode())
		})
	}
}

// TestBootOfRealPrograms has the boot code that parted and GRUB write.
func TestBootOfRealPrograms(t *testing.T) {
	folder := t.TempDir()
	name := sparse(t, filepath.Join(folder, "disk.raw"), 64*mib)
	sh(t, folder, `parted -s disk.raw mklabel msdos mkpart primary ext4 1MiB 60MiB set 1 boot on`)
	_, l := laidOut(t, name)
	assert.Equal(t, "", l.Boot.Mode(), "nothing to start in the active partition")
	put(t, name, mib, []byte("\xeb\x58\x90SYSLINUX"))
	put(t, name, mib+510, []byte{0x55, 0xaa})
	_, l = laidOut(t, name)
	assert.Equal(t, "legacy-bios", l.Boot.Mode())

	// A FAT file system without partitions has code that prints a message.
	name = sparse(t, filepath.Join(folder, "fat.raw"), 64*mib)
	sh(t, folder, `mkfs.vfat fat.raw`)
	_, l = laidOut(t, name)
	assert.Equal(t, "", l.Boot.Mode())
}

// TestFATFreeSpaceIsFree copies only what is used into a disk of random bytes. The
// result is the same file system.
func TestFATFreeSpaceIsFree(t *testing.T) {
	files := tree(t)
	for name, args := range map[string]string{
		"FAT12":            "-F 12 -s 32",
		"FAT16":            "-F 16",
		"FAT32":            "-F 32 -s 1",
		"one table":        "-F 32 -f 1",
		"sectors of 4 KiB": "-S 4096",
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			disk := filepath.Join(folder, "disk.raw")
			full(t, disk, 48*mib)
			const list = `rm -rf out; mkdir out; mcopy -s -n -i "$1" ::/ out; cd out; find . -type f -exec sha256sum {} + | sort -k2`
			sh(t, folder, "mkfs.vfat "+args+` "$1"; mcopy -s -i "$1" "$2"/* ::; mdeltree -i "$1" ::/da; mdel -i "$1" "::/db/*"`, disk, files)
			image, layout := laidOut(t, disk)
			require.Empty(t, layout.Partitions[0].Whole)
			free := strings.ReplaceAll(sh(t, folder, `mdir -i "$1" :: | tail -2`, disk), " ", "")
			assert.Equal(t, counts(t, free, `(\d+)bytesfree`), layout.Partitions[0].Free)
			want := sh(t, folder, list, disk)
			arrives(t, folder, image, func(copied string) {
				sh(t, folder, `fsck.vfat -n "$1"`, copied)
				assert.Equal(t, want, sh(t, folder, list, copied))
			})
		})
	}
}
