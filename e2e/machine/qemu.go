package machine

import (
	"bufio"
	"context"
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

// MakeCloudDisk copies a captured disk into the form of Debian's images for clouds: a
// GPT with the root as partition 1, a BIOS boot partition 14 and an EFI system
// partition 15, each with GRUB. BIOS and UEFI boot the disk. The disk is a sparse raw
// file, and its size is no multiple of a GiB.
func MakeCloudDisk(ctx context.Context, captured, disk string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", script("cloud-disk"))
	cmd.Env = append(os.Environ(), "CAPTURED="+captured, "DISK="+disk, "LABEL="+base.RootLabel,
		fmt.Sprintf("OFFSET=%d", partitionStart))
	if err := do("making the cloud disk", cmd); err != nil {
		return errors.Join(context.Cause(ctx), err, os.RemoveAll(disk))
	}
	return nil
}
