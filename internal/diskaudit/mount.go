//go:build linux

package diskaudit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
)

// Child runs the task of Run when this process is its child. A program calls it first,
// and ends with the code when child is true.
func Child(ctx context.Context) (code int, child bool) {
	if os.Getenv(childMark) == "" {
		return 0, false
	}
	var t task
	var a answer
	err := json.NewDecoder(os.Stdin).Decode(&t)
	if err == nil {
		a, err = t.audit(ctx)
	}
	if err != nil {
		a.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

func (t task) audit(ctx context.Context) (answer, error) {
	// Mounts of this process must not reach the other namespaces.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return answer{}, fmt.Errorf("separating the mounts: %w", err)
	}
	if err := t.mount(); err != nil {
		return answer{}, err
	}
	root, err := t.findRoot()
	if err != nil {
		return answer{}, err
	}
	h, err := host.Mounted(root)
	if err != nil {
		return answer{}, err
	}
	defer h.Close()
	found, _ := manifest.Load(h)           // the rules report a manifest that cannot be read
	r, _ := eksnode.Audit(ctx, h, *t.Spec) // the report has the error too
	return answer{Report: r, Manifest: found}, nil
}

// options are the mount options that keep Linux from writing to a file system, by
// file system. Each line is tried in turn, because older kernels lack the first.
var options = map[string][]string{
	"ext2": {""}, "ext3": {"noload"}, "ext4": {"noload"},
	"xfs":   {"norecovery,nouuid"},
	"btrfs": {"rescue=nologreplay", "nologreplay"},
}

// mount mounts the file system read-only.
func (t task) mount() error {
	loop, err := t.loop()
	if err != nil {
		return err
	}
	defer loop.Close() // the mount keeps the device
	var errs []error
	tries := options[t.Kind]
	if len(tries) == 0 {
		tries = []string{""}
	}
	for _, o := range tries {
		err := unix.Mount(loop.Name(), t.Folder, t.Kind, unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, o)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	err = errors.Join(errs...)
	if errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("mounting the root file system: this kernel does not know %s", t.Kind)
	}
	return fmt.Errorf("mounting the root file system (%s, at byte %d): %w; `fsck` may say more", t.Kind, t.Offset, err)
}

// tries is how often a free loop device is searched: another process may take it
// first.
const tries = 16

// loop makes a read-only loop device of the file system. The kernel removes the device
// after its last use.
func (t task) loop() (*os.File, error) {
	f, err := os.Open(t.File)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the device keeps the file
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("making a loop device: %w; a container needs access to loop devices", err)
	}
	defer control.Close()
	for n := 0; ; n++ {
		device, err := t.attach(f, control)
		if err == nil {
			return device, nil
		}
		if !errors.Is(err, unix.EBUSY) || n == tries {
			return nil, fmt.Errorf("making a loop device: %w", err)
		}
	}
}

func (t task) attach(f, control *os.File) (*os.File, error) {
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, err
	}
	device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	info := unix.LoopInfo64{Offset: uint64(t.Offset), Sizelimit: uint64(t.Length), Flags: unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR}
	err = unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{Fd: uint32(f.Fd()), Info: info})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTTY) { // kernels before 5.8
		if err = unix.IoctlSetInt(int(device.Fd()), unix.LOOP_SET_FD, int(f.Fd())); err == nil {
			err = unix.IoctlLoopSetStatus64(int(device.Fd()), &info)
		}
	}
	if err != nil {
		_ = device.Close() // err is the first error
		return nil, err
	}
	return device, nil
}

// findRoot returns the folder of the root. On btrfs the root can be a subvolume that is
// not the default one: Fedora's is root, Ubuntu's @, Debian's @rootfs.
func (t task) findRoot() (string, error) {
	for _, name := range []string{"", "root", "@", "@rootfs"} {
		folder := filepath.Join(t.Folder, name)
		for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
			if _, err := os.Lstat(filepath.Join(folder, file)); err == nil {
				return folder, nil
			}
		}
		if t.Kind != "btrfs" {
			break
		}
	}
	return "", fmt.Errorf("the %s file system at byte %d has no /etc/os-release, so it is not the root of a Linux system; name the root partition", t.Kind, t.Offset)
}
