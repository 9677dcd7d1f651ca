//go:build linux

package diskaudit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// Child runs the task of this process, if it is a child that this package started. work
// does the work of Work.Run. A program calls Child first, and ends with the code when
// child is true.
func Child(ctx context.Context, work Worker) (code int, child bool) {
	if os.Getenv(childMark) == "" {
		return 0, false
	}
	_ = os.Unsetenv(childMark) // its children are no audits; it cannot fail
	var t task
	var a answer
	err := json.NewDecoder(os.Stdin).Decode(&t)
	switch {
	case err == nil && t.Work != nil:
		a, err = t.work(ctx, work)
	case err == nil && t.Spec == nil:
		if err = t.list(ctx, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return listFailed, true
		}
		return 0, true
	case err == nil:
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

// machine is the image's file systems while they are mounted.
type machine struct {
	task
	root source
	// devices are the loop devices, and at the mount points, by partition number. Of
	// btrfs, that is the last one. mounts are all, in their order.
	devices map[int]*os.File
	at      map[int]string
	mounts  []string
	// files are the open files of the partitions, by name.
	files map[string]*os.File
	// folder is where the root is mounted, and other a place to look into others.
	folder, other string
	// listed are the partitions about which the answer says something.
	listed map[int]bool
	answer answer
}

func (t task) audit(ctx context.Context) (answer, error) {
	m := t.machine()
	defer m.close()
	if err := m.prepare(); err != nil {
		return answer{}, err
	}
	h, err := m.open()
	if err != nil {
		return answer{}, err
	}
	defer h.Close()
	m.answer.Manifest, _ = manifest.Load(h) // the rules report a manifest that cannot be read
	if t.Whole {
		if m.answer.Manifest, err = Whole(ctx, h); err != nil {
			return answer{}, err
		}
	}
	m.answer.Report, _ = eksnode.Audit(surface.WithFlags(ctx, t.Flags), h, *t.Spec,
		eksnode.Options{}) // has the error too
	return m.answer, nil
}

// machine is the machine before its file systems are mounted.
func (t task) machine() *machine {
	return &machine{task: t, devices: map[int]*os.File{}, at: map[int]string{}, files: map[string]*os.File{},
		listed: map[int]bool{}}
}

// prepare makes the places for mounts. They and all temporary files of this process are
// in a tmpfs that no other process sees, so nothing is left when this process is killed.
func (m *machine) prepare() error {
	// Mounts of this process must not reach the other namespaces. What the machine unmounts
	// meanwhile must go here too: its disk would stay in use.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separating the mounts: %w", err)
	}
	for _, p := range m.Parts { // the tmpfs can hide them
		if m.files[p.File] != nil {
			continue
		}
		mode := os.O_RDONLY
		if p.Copied {
			mode = os.O_RDWR
		}
		f, err := os.OpenFile(p.File, mode, 0)
		if err != nil {
			return err
		}
		m.files[p.File] = f
	}
	folder := os.TempDir()
	if err := unix.Mount("eksnode", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		"mode=0700"); err != nil {
		return fmt.Errorf("mounting a tmpfs on %s: %w", folder, err)
	}
	m.folder, m.other = filepath.Join(folder, "root"), filepath.Join(folder, "other")
	return errors.Join(os.Mkdir(m.folder, 0o700), os.Mkdir(m.other, 0o700))
}

// open mounts the file systems and opens the root.
func (m *machine) open() (*host.Host, error) {
	if err := m.mountRoot(); err != nil {
		return nil, err
	}
	m.answer.Root = m.root.Number
	if m.Spec == nil && m.Work == nil && m.Chosen && !isRoot(m.folder) { // files can be listed of any file system
		return host.Mounted(m.folder)
	}
	if err := m.mountOthers(); err != nil {
		return nil, err
	}
	if !isRoot(m.folder) {
		return nil, fmt.Errorf("the %s file system at byte %d has no /etc/os-release, so it is not the root of a "+
			"Linux system; name the root partition", m.root.Kind, m.root.Offset)
	}
	return host.Mounted(m.folder)
}

// close closes the loop devices and their files. The mounts keep them.
func (m *machine) close() {
	for _, d := range m.devices {
		_ = d.Close() // nothing was written
	}
	for _, f := range m.files {
		_ = f.Close()
	}
}

// mountRoot mounts the root partition. Among several candidates, the root is the one
// with an os-release.
func (m *machine) mountRoot() error {
	var roots []disk.Partition
	for _, number := range m.Roots {
		p := m.part(number)
		if err := m.mountAsRoot(p); err != nil {
			return fmt.Errorf("mounting the root file system: %w", err)
		}
		if len(m.Roots) == 1 {
			m.root = p
			return nil
		}
		if isRoot(m.folder) {
			roots, m.root = append(roots, p.Partition), p
		}
		if err := unmount(m.folder); err != nil {
			return err
		}
		delete(m.at, number)
	}
	if len(roots) == 0 {
		for _, number := range m.Roots {
			roots = append(roots, m.part(number).Partition)
		}
	}
	if len(roots) > 1 {
		return disk.SeveralRoots(roots)
	}
	return m.mountAsRoot(m.root)
}

func (m *machine) part(number int) source {
	return m.Parts[slices.IndexFunc(m.Parts, func(p source) bool { return p.Number == number })]
}

// mountAsRoot mounts a file system on the root's folder. On btrfs the root can be a
// subvolume that is not the default one: Fedora's is root, Ubuntu's @, Debian's @rootfs.
func (m *machine) mountAsRoot(p source) error {
	if err := m.mount(p, m.folder, ""); err != nil || p.Kind != "btrfs" || isRoot(m.folder) {
		return err
	}
	for _, name := range []string{"root", "@", "@rootfs"} {
		if !isRoot(filepath.Join(m.folder, name)) {
			continue
		}
		if err := unmount(m.folder); err != nil {
			return err
		}
		return m.mount(p, m.folder, "subvol="+name)
	}
	return nil
}

func unmount(folder string) error {
	if err := unix.Unmount(folder, 0); err != nil {
		return fmt.Errorf("unmounting %s: %w", folder, err)
	}
	return nil
}

func isRoot(folder string) bool {
	for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
		if _, err := os.Lstat(filepath.Join(folder, file)); err == nil {
			return true
		}
	}
	return false
}

// The superblock of ext2, ext3 and ext4 can hold mount options, among them errors=panic:
// one damaged block then stops the machine that mounts. Options of the mount call win. A
// kernel before 4.19 does not know the last two.
const (
	extCalm   = "errors=continue"
	extChecks = extCalm + ",nowarn_on_error,block_validity"
)

// drivers are the file systems of Linux with another name than the partition's kind. That
// of ext4 reads them all, and takes the same options for all.
var drivers = map[string]string{"ext2": "ext4", "ext3": "ext4"}

// options are the mount options that keep Linux from writing to a file system, and from
// doing what the image asks for, by driver. Each line is tried in turn, because older
// kernels lack the first.
var options = map[string][]string{
	"ext4":  {"noload," + extChecks, "noload," + extCalm},
	"xfs":   {"norecovery,nouuid,noquota"},
	"btrfs": {"rescue=nologreplay", "nologreplay"},
}

// replaying are the mount options of a copy, in which Linux replays the journal.
var replaying = map[string][]string{"ext4": {extChecks, extCalm}, "xfs": {"nouuid,noquota"}}

// working are the mount options of a work, which is lost anyway when this machine stops:
// package managers need not wait for the disk after each file.
var working = map[string][]string{"ext4": {extChecks + ",barrier=0"}, "btrfs": {"nobarrier"}}

// mount mounts a partition on a folder of this process, read-only without a work.
func (m *machine) mount(p source, folder, subvolume string) error {
	if p.Elsewhere != "" {
		return fmt.Errorf("%s, at byte %d: %s; the audit opens no other device than the image", p.Kind, p.Offset,
			p.Elsewhere)
	}
	device, err := m.device(p)
	if err != nil {
		return err
	}
	var errs []error
	driver := cmp.Or(drivers[p.Kind], p.Kind)
	tries := options[driver]
	if p.Copied {
		tries = replaying[driver]
	}
	if len(tries) == 0 {
		tries = []string{""}
	}
	if m.Work != nil {
		tries = append(slices.Clone(working[driver]), tries...)
	}
	flags := uintptr(unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if m.Work != nil {
		flags = unix.MS_NODEV
	}
	for _, o := range tries {
		o = strings.Trim(o+","+subvolume, ",")
		err := unix.Mount(device.Name(), folder, driver, flags, o)
		if err == nil {
			m.at[p.Number], m.mounts = folder, append(m.mounts, folder)
			return nil
		}
		errs = append(errs, err)
	}
	err = errors.Join(errs...)
	if errors.Is(err, unix.ENODEV) {
		return noFileSystem(driver)
	}
	return fmt.Errorf("%s, at byte %d: %w; `fsck` may say more", p.Kind, p.Offset, err)
}

// noFileSystem means that the kernel lacks a file system.
type noFileSystem string

func (e noFileSystem) Error() string {
	return fmt.Sprintf("this kernel does not know %s: load the module (modprobe %s), or run the audit on a machine "+
		"whose kernel has the module", string(e), string(e))
}

// tries is how often a free loop device is searched: another process may take it
// first.
const tries = 16

// device makes a loop device of a partition, or returns the one that exists. The kernel
// removes the device after its last use.
func (m *machine) device(p source) (*os.File, error) {
	if d := m.devices[p.Number]; d != nil {
		return d, nil
	}
	mode, flags := os.O_RDONLY, uint32(unix.LO_FLAGS_READ_ONLY|unix.LO_FLAGS_AUTOCLEAR)
	if p.Copied {
		mode, flags = os.O_RDWR, unix.LO_FLAGS_AUTOCLEAR
	}
	control, err := openLoopControl()
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for n := 0; ; n++ {
		device, err := attach(p, m.files[p.File], control, mode, flags)
		if err == nil {
			m.devices[p.Number] = device
			return device, nil
		}
		if !errors.Is(err, unix.EBUSY) || n == tries {
			return nil, fmt.Errorf("making a loop device: %w; a container needs access to loop devices (docker run "+
				"--privileged -v /dev:/dev)", err)
		}
	}
}

func attach(p source, f, control *os.File, mode int, flags uint32) (*os.File, error) {
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, err
	}
	device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), mode, 0)
	if err != nil {
		return nil, err
	}
	info := unix.LoopInfo64{Offset: uint64(p.Offset), Sizelimit: uint64(p.Length), Flags: flags}
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
