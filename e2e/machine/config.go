package machine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// Kind is the technology of a machine.
type Kind string

const (
	// Nspawn is a systemd-nspawn container: a real systemd, sshd and package
	// manager in about three seconds. It uses the host's kernel: no modules, no
	// boot loader, no sysctls but net's.
	Nspawn Kind = "nspawn"
	// QEMU is a virtual machine with a kernel and a boot loader of its own. With
	// software emulation it takes about a minute to boot.
	QEMU Kind = "qemu"
	// Node is a container on a copy of a disk image, with control groups of its
	// own, so that containerd and a kubelet run pods in it. Otherwise it is like
	// Nspawn. It needs an image.
	Node Kind = "node"
)

// Kinds returns all kinds of machines.
func Kinds() []Kind { return []Kind{Nspawn, QEMU, Node} }

// Packages returns the Debian packages that a lab with machines of these kinds
// needs on the host. Pass them to base.Install.
func Packages(kinds ...Kind) []string {
	packages := []string{"dnsmasq-base", "e2fsprogs", "fdisk", "iproute2", "mount", "qemu-utils", "util-linux"}
	for _, kind := range kinds {
		switch kind {
		case Nspawn:
			packages = append(packages, "systemd-container")
		case QEMU:
			packages = append(packages, "ovmf", "qemu-system-x86", "seabios", "xorriso")
		}
	}
	return packages
}

// Config describes a machine.
type Config struct {
	// Kind is Nspawn when empty.
	Kind Kind
	// Root is the tree of a base system; the machine's changes go elsewhere. Image
	// is a captured disk, raw or (by its name's ending) .qcow2. Exactly one of the
	// two must be set, and it must not change while the machine exists.
	Root, Image string
	// Move makes the image itself the disk of a machine of kind Node, instead of a
	// copy. The image must be raw, and in the file system of the lab's folder.
	Move bool
	// InstanceID is the name of the machine in its lab, and cloud-init's instance
	// id: "i-…" on EC2. Lower-case letters, digits and hyphens.
	InstanceID string
	// AuthorizedKeys are lines for the user's authorized_keys.
	AuthorizedKeys []string
	// Signer logs in to the machine, for Run. Without a Signer, a machine is ready
	// when its sshd refuses the harness's login.
	Signer ssh.Signer
	// User is the account of Signer and SSH. When empty, it is "admin", the name of
	// cloud-init's default user on Debian's images.
	User string
	// UserData is the user data for cloud-init; an empty cloud-config when empty.
	UserData []byte
	// Addressed, if set, is called with the machine's address before the first
	// boot. It is for servers that identify their clients by address.
	Addressed func(netip.Addr)
	// ReadyWithin is how long a boot may take until SSH accepts connections. Zero
	// means a minute for Nspawn, three for Node and ten for QEMU, enough for a busy
	// host.
	ReadyWithin time.Duration
	// Memory sizes a virtual machine, in MiB; zero means 1024.
	Memory int
	// UEFI makes the firmware of a virtual machine UEFI, without boot variables. The
	// disk needs an EFI system partition.
	UEFI bool
	// NVMe is the number of additional empty NVMe disks of a virtual machine, of 1
	// GiB each. Their serial numbers are "EMPTY1" and so on.
	NVMe int
}

var instanceIDs = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,40}$`)

// complete checks the configuration and sets the defaults.
func (c Config) complete() (Config, error) {
	c.Kind = cmp.Or(c.Kind, Nspawn)
	switch {
	case !slices.Contains(Kinds(), c.Kind):
		return c, fmt.Errorf("kind %q is unknown: must be one of %q", c.Kind, Kinds())
	case (c.Root == "") == (c.Image == ""):
		return c, errors.New("exactly one of root and image must be given")
	case c.Kind == Node && c.Image == "":
		return c, errors.New("a machine of kind node needs an image: its disk is a copy")
	case c.Kind != QEMU && c.NVMe > 0:
		return c, fmt.Errorf("a machine of kind %s has no disks but its own", c.Kind)
	case c.Move && (c.Kind != Node || imageFormat(c.Image) != "raw"):
		return c, errors.New("only a machine of kind node can move its image, which must be raw")
	case c.Kind != QEMU && c.UEFI:
		return c, fmt.Errorf("a machine of kind %s has no firmware", c.Kind)
	case !instanceIDs.MatchString(c.InstanceID):
		return c, fmt.Errorf("instance id %q must match %s", c.InstanceID, instanceIDs)
	}
	usual := map[Kind]time.Duration{Nspawn: time.Minute, Node: 3 * time.Minute, QEMU: 10 * time.Minute}[c.Kind]
	c.ReadyWithin = cmp.Or(c.ReadyWithin, usual)
	c.User, c.Memory = cmp.Or(c.User, "admin"), cmp.Or(c.Memory, 1024)
	return c, nil
}

// probeLimit is how long a kernel under KVM may take until it reports the
// missing root file system. It normally takes about a second.
const probeLimit = 20 * time.Second

// probeMark is the last message of a kernel without a root file system.
const probeMark = "Unable to mount root fs"

// software selects emulation; qemu64 is the fastest emulated processor because
// it has the fewest features.
func software() []string { return []string{"-accel", "tcg,thread=multi", "-cpu", "qemu64"} }

func hardware() []string { return []string{"-accel", "kvm", "-cpu", "host"} }

// accelerator returns qemu's options: KVM when it works on this host, otherwise
// software emulation. The existence of /dev/kvm is not enough: if the host is
// itself a virtual machine, qemu may start and the kernel may still hang. The
// first call therefore boots the kernel of LabConfig and checks its progress.
func (l *Lab) accelerator() ([]string, error) {
	l.probe.Do(func() {
		l.accel, l.probeErr = software(), nil
		if l.config.Kernel == "" {
			return
		}
		works, err := probeKVM(l.config.Kernel)
		if works {
			l.accel = hardware()
		}
		l.probeErr = err
		fmt.Fprintf(l.config.Log, "virtual machines run with %v\n", l.accel)
	})
	return l.accel, l.probeErr
}

func probeKVM(kernel string) (bool, error) {
	if _, err := os.Stat("/dev/kvm"); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	kernel, err := filepath.EvalSymlinks(kernel)
	if err != nil {
		return false, fmt.Errorf("probing KVM: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	args := append(hardware(), "-nodefaults", "-no-user-config", "-display", "none", "-m", "256", "-no-reboot",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-kernel", kernel, "-append", "console=ttyS0 panic=-1")
	// qemu's exit status does not matter, only the kernel's progress.
	out, err := exec.CommandContext(ctx, "qemu-system-x86_64", args...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return false, fmt.Errorf("probing KVM: %w", err)
	}
	return bytes.Contains(out, []byte(probeMark)), nil
}

// partitionStart is the start of the only partition of a disk image, in bytes.
const partitionStart = 1 << 20

// minimumDisk is the minimum size of an image's file system in KiB: 4 GiB.
const minimumDisk = 4 << 20

// MakeDisk turns a tree, such as that of a base system, into a disk image.
func MakeDisk(ctx context.Context, tree, disk string) error {
	return makeDisk(ctx, script("disk"), os.Environ(), tree, disk)
}

// makeDisk runs a script that ends with disk.sh, in a mount namespace of its own.
func makeDisk(ctx context.Context, text string, environment []string, tree, disk string) error {
	disk, err := filepath.Abs(disk)
	if err != nil {
		return fmt.Errorf("making the disk image: %w", err)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", text)
	// All other processes and the mounts end with the first process.
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: unix.SIGKILL}
	// The kernel sends Pdeathsig when this thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Env = append(environment,
		"TREE="+tree, "DISK="+disk, "LABEL="+base.RootLabel,
		fmt.Sprintf("OFFSET=%d", partitionStart), fmt.Sprintf("MINIMUM=%d", minimumDisk))
	if err := do("making the disk image", cmd); err != nil {
		return errors.Join(context.Cause(ctx), err, os.RemoveAll(disk))
	}
	return nil
}

// imageFormat returns qemu's name for an image's format, by its file name.
func imageFormat(path string) string {
	if filepath.Ext(path) == ".qcow2" {
		return "qcow2"
	}
	return "raw"
}

// convert copies a disk image into another format, without zero blocks.
func convert(ctx context.Context, from, source, to, target string) error {
	return do("converting the disk image to "+to,
		exec.CommandContext(ctx, "qemu-img", "convert", "-f", from, "-O", to, source, target))
}
