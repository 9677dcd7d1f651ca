package machine

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// virtual is a machine of kind QEMU: a PC with a virtio disk from which its
// BIOS boots GRUB, and a second, read-only drive with the instance data.
type virtual struct{ *Machine }

// disk returns the path of the machine's own disk. A launched image is only its
// backing file.
func (v *virtual) disk() string { return filepath.Join(v.folder, "disk.qcow2") }

func (v *virtual) prepare(ctx context.Context) error {
	if err := v.makeSeedDrive(ctx); err != nil {
		return err
	}
	backing, err := v.backing(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "qemu-img", "create", "-q", "-f", "qcow2",
		"-b", backing, "-F", imageFormat(backing), v.disk())
	if err := do("making the disk", cmd); err != nil {
		return err
	}
	return v.EmptyDisks()
}

// EmptyDisks makes or empties the NVMe disks of a stopped machine, because EC2
// empties an instance store when an instance stops.
func (m *Machine) EmptyDisks() error {
	if m.Running() {
		return fmt.Errorf("emptying the disks of %s: the machine is running; power it off first", m.config.InstanceID)
	}
	for n := range m.config.NVMe {
		disk, err := os.Create(filepath.Join(m.folder, emptyDisk(n)))
		if err != nil {
			return fmt.Errorf("emptying a disk: %w", err)
		}
		if err := errors.Join(disk.Truncate(1<<30), disk.Close()); err != nil {
			return fmt.Errorf("emptying a disk: %w", err)
		}
	}
	return nil
}

func emptyDisk(n int) string { return fmt.Sprintf("nvme%d.raw", n) }

// backing returns the disk image under the machine's own disk: a captured
// image, or an image made from the base system's tree.
func (v *virtual) backing(ctx context.Context) (string, error) {
	if v.config.Image != "" {
		image, err := filepath.Abs(v.config.Image)
		if err != nil {
			return "", fmt.Errorf("finding the image: %w", err)
		}
		return image, nil
	}
	raw := filepath.Join(v.folder, "base.raw")
	return raw, MakeDisk(ctx, v.config.Root, raw)
}

// seedDrive makes an ISO 9660 file system with the label that cloud-init
// expects.
func (v *virtual) seedDrive() string { return filepath.Join(v.folder, "seed.iso") }

func (v *virtual) makeSeedDrive(ctx context.Context) error {
	return do("making the instance data's drive", exec.CommandContext(ctx, "xorriso", "-as", "mkisofs", "-quiet",
		"-V", "cidata", "-J", "-r", "-o", v.seedDrive(), v.seedPath()))
}

func (v *virtual) boot() (*Process, error) {
	if err := v.plug(); err != nil {
		return nil, err
	}
	console, err := os.OpenFile(v.consolePath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer console.Close()
	accelerator, err := v.lab.accelerator()
	if err != nil {
		return nil, err
	}
	// The process ends with the machine, not with a context.
	cmd := v.lab.Command(context.Background(), "qemu-system-x86_64", v.args(accelerator)...)
	cmd.Dir = v.folder
	cmd.Stdout, cmd.Stderr = console, console
	return Spawn(cmd)
}

// plug makes the machine's end of the link, for each boot.
func (v *virtual) plug() error {
	script := `set -e
ip tuntap add "$1" mode tap
ip link set "$1" master "$2" up`
	return do("making the link", v.lab.Command(context.Background(), "sh", "-c", script, "sh", v.link(), bridge))
}

// args uses paths relative to the machine's folder, because the folder's path
// could contain commas, which separate qemu's options.
func (v *virtual) args(accelerator []string) []string {
	args := append(accelerator,
		"-name", v.config.InstanceID, "-machine", "pc", "-nodefaults", "-no-user-config", "-display", "none",
		"-m", strconv.Itoa(v.config.Memory), "-smp", "2",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-monitor", "unix:monitor,server=on,wait=off",
		"-drive", "file=disk.qcow2,format=qcow2,if=virtio,cache=unsafe,discard=unmap",
		"-drive", "file=seed.iso,format=raw,if=virtio,readonly=on",
		"-netdev", "tap,id=link,ifname="+v.link()+",script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=link,romfile=,mac="+v.mac.String(),
		"-device", "virtio-rng-pci",
	)
	if v.config.UEFI {
		args = append(args, "-bios", "/usr/share/ovmf/OVMF.fd")
	}
	for n := range v.config.NVMe {
		args = append(args,
			"-drive", fmt.Sprintf("file=%s,format=raw,if=none,id=empty%d,cache=unsafe,discard=unmap", emptyDisk(n), n),
			"-device", fmt.Sprintf("nvme,drive=empty%d,serial=EMPTY%d", n, n+1),
		)
	}
	return args
}

// press presses the ACPI power button, which makes systemd power off.
func (v *virtual) press(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", filepath.Join(v.folder, "monitor"))
	if err != nil {
		return fmt.Errorf("connecting to qemu's monitor: %w", err)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "system_powerdown\nquit-this-monitor\n")
	// The monitor reports the unknown command after it has executed the command
	// before it.
	for said := bufio.NewScanner(conn); err == nil && said.Scan(); {
		if strings.Contains(said.Text(), "unknown command") {
			return nil
		}
	}
	return fmt.Errorf("pressing the power button by qemu's monitor: %w", errors.Join(err, io.ErrUnexpectedEOF))
}

// release removes the link if it exists.
func (v *virtual) release() error {
	_, err := v.lab.Command(context.Background(), "ip", "link", "show", v.link()).Output()
	if errors.As(err, new(*exec.ExitError)) {
		return nil
	}
	return do("removing the link", v.lab.Command(context.Background(), "ip", "link", "delete", v.link()))
}

func (v *virtual) capture(ctx context.Context, raw string) error {
	return convert(ctx, "qcow2", v.disk(), "raw", raw)
}

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
	if err := copyDisk(ctx, captured, disk); err != nil {
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
	if err := do(name, cmd); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return nil
}
