package machine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// CloudPackages are the Debian packages that MakeCloudDisk needs on the host.
func CloudPackages() []string {
	return []string{"dosfstools", "fdisk", "grub-common", "grub-efi-amd64-bin", "grub-pc-bin", "mtools"}
}

// The partitions behind the root partition of a cloud disk, in bytes.
const (
	biosBootSize = 1 << 20
	espSize      = 64 << 20
	// tableSize is for the copy of the GPT at the end.
	tableSize = 1 << 20
)

// earlyConfig is inside both boot loaders. It continues with the configuration in the
// root file system.
const earlyConfig = `search --no-floppy --label ` + base.RootLabel + ` --set=root
set prefix=($root)/boot/grub
configfile $prefix/grub.cfg
`

var loaderModules = []string{
	"part_gpt", "ext2", "search", "search_label", "normal", "configfile", "linux", "echo", "serial", "terminal", "test",
}

// cloudDisk is a disk that is being made.
type cloudDisk struct {
	path   string
	folder string // for the boot loaders
	// Offsets of the partitions behind the root partition.
	biosBoot, esp int64
}

// MakeCloudDisk copies a captured disk into the form of Debian's images for clouds: a
// GPT with the root as partition 1, a BIOS boot partition 14 and an EFI system
// partition 15, each with GRUB. BIOS and UEFI boot the disk. The disk is a sparse raw
// file, and its size is no multiple of a GiB.
func MakeCloudDisk(ctx context.Context, captured, disk string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making the cloud disk: %w", err), os.RemoveAll(disk))
		}
	}()
	info, err := os.Stat(captured)
	if err != nil {
		return err
	}
	end := (info.Size() + partitionStart - 1) / partitionStart * partitionStart
	d := cloudDisk{path: disk, biosBoot: end, esp: end + biosBootSize}
	if d.folder, err = os.MkdirTemp(filepath.Dir(disk), "loader-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.folder)
	if err := run(ctx, "", "cp", "--sparse=always", "--reflink=auto", captured, disk); err != nil {
		return err
	}
	if err := d.partition(ctx, info.Size()); err != nil {
		return err
	}
	return errors.Join(d.bootByBIOS(ctx), d.bootByUEFI(ctx))
}

// partition replaces the MBR and its boot loader with a GPT. The types of the
// partitions are those of a root for x86-64, of a BIOS boot partition and of an EFI
// system partition (https://uapi-group.org/specifications/specs/discoverable_partitions_specification/).
func (d cloudDisk) partition(ctx context.Context, rootEnd int64) error {
	if err := os.Truncate(d.path, d.esp+espSize+tableSize); err != nil {
		return err
	}
	if err := d.write(0, make([]byte, partitionStart)); err != nil {
		return err
	}
	table := fmt.Sprintf(`label: gpt
1 : start=%d, size=%d, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709
14 : start=%d, size=%d, type=21686148-6449-6E6F-744E-656564454649
15 : start=%d, size=%d, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B
`, partitionStart/512, (rootEnd-partitionStart)/512, d.biosBoot/512, biosBootSize/512, d.esp/512, espSize/512)
	return run(ctx, table, "sfdisk", "--quiet", "--wipe=never", d.path)
}

// bootByBIOS writes GRUB's boot.img to the first sector and its core.img to the BIOS
// boot partition. As grub-bios-setup does, it writes into each where the next part is
// (grub-core/boot/i386/pc/boot.S and diskboot.S).
func (d cloudDisk) bootByBIOS(ctx context.Context) error {
	const modules = "/usr/lib/grub/i386-pc"
	path, err := d.loader(ctx, "i386-pc", "biosdisk")
	if err != nil {
		return err
	}
	core, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	boot, err := os.ReadFile(filepath.Join(modules, "boot.img"))
	if err != nil {
		return err
	}
	if len(core) > biosBootSize {
		return fmt.Errorf("the boot loader has %d bytes, more than its partition", len(core))
	}
	binary.LittleEndian.PutUint64(boot[0x5c:], uint64(d.biosBoot/512))
	binary.LittleEndian.PutUint64(core[512-12:], uint64(d.biosBoot/512+1))
	return errors.Join(d.write(0, boot[:440]), d.write(d.biosBoot, core))
}

// bootByUEFI makes the EFI system partition, with GRUB where firmware without boot
// variables searches.
func (d cloudDisk) bootByUEFI(ctx context.Context) error {
	program, err := d.loader(ctx, "x86_64-efi", "fat")
	if err != nil {
		return err
	}
	esp := filepath.Join(d.folder, "esp")
	for _, argv := range [][]string{
		{"mkfs.vfat", "-F", "32", "-C", esp, fmt.Sprint(espSize / 1024)},
		{"mmd", "-i", esp, "::/EFI", "::/EFI/BOOT"},
		{"mcopy", "-i", esp, program, "::/EFI/BOOT/BOOTX64.EFI"},
		{"dd", "if=" + esp, "of=" + d.path, "bs=1M", fmt.Sprintf("seek=%d", d.esp>>20), "conv=notrunc,sparse"},
	} {
		if err := run(ctx, "", argv[0], argv[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// loader makes GRUB for a platform and returns its path.
func (d cloudDisk) loader(ctx context.Context, platform, module string) (string, error) {
	early := filepath.Join(d.folder, "early.cfg")
	if err := os.WriteFile(early, []byte(earlyConfig), 0o600); err != nil {
		return "", err
	}
	path := filepath.Join(d.folder, platform)
	args := append([]string{"-O", platform, "-c", early, "-p", "/boot/grub", "-o", path, module}, loaderModules...)
	return path, run(ctx, "", "grub-mkimage", args...)
}

func (d cloudDisk) write(at int64, content []byte) (err error) {
	f, err := os.OpenFile(d.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.NewOffsetWriter(f, at).Write(content)
	return err
}

func run(ctx context.Context, input, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, errors.Join(context.Cause(ctx), err), strings.TrimSpace(string(out)))
	}
	return nil
}
