package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Enter makes the root that Run was called with the root of this process, and mounts
// what its programs need. With ownTmp, /tmp is the root's own folder and no memory.
func Enter(ownTmp bool) error {
	resolver, err := os.ReadFile(resolvConf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the host's resolver: %w", err)
	}
	mounts, resolve := func() error { return mountAll(ownTmp) }, func() error { return showResolver(resolver) }
	return enter(mark, mounts, makeDevices, resolve)
}

// enter makes the root in the variable mark the root of this process. The functions of
// fill mount what the programs need.
func enter(mark string, fill ...func() error) error {
	root := os.Getenv(mark)
	if err := os.Unsetenv(mark); err != nil {
		return err
	}
	steps := append([]func() error{closeOnExec, func() error { return turn(root) }}, fill...)
	name := func() error { return unix.Sethostname([]byte("localhost")) }
	for _, step := range append(steps, hide, name, dropCapabilities, scopeSockets, filterCalls) {
		if err := step(); err != nil {
			return fmt.Errorf("preparing the sandbox in %s: %w", root, err)
		}
	}
	return nil
}

// closeOnExec keeps files that the caller of this program left open, such as folders of
// the host, from the programs inside.
func closeOnExec() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("listing the open files: %w", err)
	}
	for _, file := range open {
		if fd, err := strconv.Atoi(file.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// turn makes a folder the root of this process's mount namespace. The host's file
// systems are no longer there afterwards.
func turn(root string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("separating the mounts: %w", err)
	}
	if err := unix.Mount(root, root, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("binding the root: %w", err)
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	// pivot_root(2): with both folders equal, the old root is mounted over the new one.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the host's root: %w", err)
	}
	return os.Chdir("/")
}

// mount is a mount inside. Links on the way to its folder end inside the root.
type mount struct {
	source, folder, fsType string
	flags                  uintptr
	options                string
}

const (
	plain    = unix.MS_NOSUID | unix.MS_NODEV
	readOnly = unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY
)

// mountAll mounts what a running machine would have. What changes the kernel of this
// machine cannot be written.
func mountAll(ownTmp bool) error {
	mounts := []mount{
		{"proc", "/proc", "proc", plain | unix.MS_NOEXEC, ""},
		{"sysfs", "/sys", "sysfs", plain | unix.MS_NOEXEC | unix.MS_RDONLY, ""},
		{"tmpfs", "/dev", "tmpfs", unix.MS_NOSUID, "mode=755,size=64m"},
		{"tmpfs", "/run", "tmpfs", plain, "mode=755"},
	}
	if !ownTmp {
		mounts = append(mounts, mount{"tmpfs", "/tmp", "tmpfs", plain, "mode=1777"})
	}
	for _, name := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"} {
		mounts = append(mounts, mount{name, name, "", unix.MS_BIND, ""},
			mount{"", name, "", readOnly | plain | unix.MS_NOEXEC, ""})
	}
	for _, m := range mounts {
		err := unix.Mount(m.source, m.folder, m.fsType, m.flags, m.options)
		switch missing := errors.Is(err, fs.ErrNotExist); {
		case missing && m.fsType == "": // depends on the kernel
		case missing:
			return fmt.Errorf("the root has no folder %s; name the root of a whole system, or make the folder",
				m.folder)
		case err != nil:
			return fmt.Errorf("mounting %s in the root: %w", m.folder, err)
		}
	}
	return nil
}

// makeDevices makes the device nodes that every machine has, and no other.
func makeDevices() error {
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		err := unix.Mknod("/dev/"+name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor)))
		if err == nil {
			err = os.Chmod("/dev/"+name, 0o666) // Mknod obeys the umask
		}
		if err != nil {
			return fmt.Errorf("making /dev/%s: %w", name, err)
		}
	}
	for name, to := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(to, "/dev/"+name); err != nil {
			return err
		}
	}
	for _, folder := range []string{"/dev/pts", "/dev/shm"} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod("/dev/shm", 0o777|fs.ModeSticky); err != nil {
		return err
	}
	err := unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=620")
	if err != nil {
		return fmt.Errorf("mounting /dev/pts in the root: %w", err)
	}
	return nil
}

// RootDevice is the device node of the root's file system in a script of Script. GRUB looks
// for the file behind a node with the name of a loop device.
const RootDevice = "/dev/root-file-system"

// makeRootDevice makes RootDevice, and a link with the name in mountinfo.
func makeRootDevice() error {
	var root unix.Stat_t
	if err := unix.Stat("/", &root); err != nil {
		return fmt.Errorf("finding the device of the root: %w", err)
	}
	name, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(root.Dev), unix.Minor(root.Dev)))
	if err != nil {
		return fmt.Errorf("finding the device of the root: %w", err)
	}
	if err := unix.Mknod(RootDevice, unix.S_IFBLK|0o600, int(root.Dev)); err != nil {
		return fmt.Errorf("making %s: %w", RootDevice, err)
	}
	return os.Symlink(RootDevice, filepath.Join("/dev", filepath.Base(name)))
}

const (
	resolvConf = "/etc/resolv.conf"
	// placeholder is the content of resolvConf that a sandbox makes in a root without one,
	// to mount over it. Run removes the file, also that of an earlier run that was killed.
	placeholder = "# eksnode shows the host's name servers here during a build.\n"
)

// showResolver shows the host's resolver at the root's own place for it: through /run where
// the root has a link there, else by a mount.
func showResolver(content []byte) error {
	name := "/run/resolv.conf"
	to, err := os.Readlink(resolvConf)
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(resolvConf), to)
	}
	to = filepath.Clean(to)
	if _, err := os.Readlink("/var/run"); err == nil { // leads to /run
		to = strings.TrimPrefix(to, "/var")
	}
	linked := err == nil && strings.HasPrefix(to, "/run/")
	if linked {
		name = to
	}
	failed := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, content, 0o644))
	if errors.Is(err, fs.ErrNotExist) {
		failed = errors.Join(failed, os.WriteFile(resolvConf, []byte(placeholder), 0o644))
	}
	if failed != nil || linked {
		return failed
	}
	err = unix.Mount(name, resolvConf, "", unix.MS_BIND, "")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) {
		err = mountOnLink(name, resolvConf)
	}
	if err != nil {
		return fmt.Errorf("showing the host's resolver at %s, which must be a file or a link: %w", resolvConf, err)
	}
	return nil
}

// mountOnLink mounts a file over a link that leads to no file, from Linux 5.2 on.
func mountOnLink(name, link string) error {
	file, err := unix.OpenTree(unix.AT_FDCWD, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	return unix.MoveMount(file, "", unix.AT_FDCWD, link, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// kept are the capabilities that package scripts need: those of a container build,
// without device nodes and raw sockets.
var kept = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID,
	unix.CAP_SETUID, unix.CAP_SETPCAP,
	unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_AUDIT_WRITE, unix.CAP_SETFCAP,
}

// dropCapabilities takes all other capabilities from the programs that this process
// starts. This process keeps its own, so no program inside may look into it (ptrace(2)).
func dropCapabilities() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if slices.Contains(kept, c) {
			continue
		}
		_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0)
		if errno == unix.ENOTSUP {
			return errors.New("dropping capabilities: this eksnode was built with cgo; build it with CGO_ENABLED=0")
		}
		if errno != 0 && errno != unix.EINVAL { // an older kernel does not have it
			return fmt.Errorf("dropping the capability %d: %w", c, errno)
		}
	}
	return nil
}
