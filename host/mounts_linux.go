package host

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// MountsBelow lists the mounts below the directory name, without a mount on name
// itself. The deepest mount is first, so that unmounting in this order works. Links
// on the way to name are resolved. A missing name has no mounts.
func (f *Files) MountsBelow(name string) ([]Mount, error) {
	dir, err := f.realPath(name)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return f.mountsBelow(dir, name, false)
}

// mountsBelow lists the mounts below the directory dir, which the machine calls
// name. With itself, it also lists a mount on the directory.
func (f *Files) mountsBelow(dir, name string, itself bool) ([]Mount, error) {
	v, err := f.mounts.view(f.root)
	if err != nil {
		return nil, err
	}
	var mounts []Mount
	for _, i := range v.all {
		if rest, inside := below(dir, i.Mountpoint); inside && (itself || i.Mountpoint != dir) {
			mounts = append(mounts, Mount{Path: path.Join(name, rest), Type: i.FSType, Source: i.Source})
		}
	}
	slices.SortStableFunc(mounts, func(a, b Mount) int {
		return strings.Count(b.Path, "/") - strings.Count(a.Path, "/")
	})
	return mounts, nil
}

// mountTable is the kernel's table of mounts. It is read again only when poll(2)
// reports a change (proc(5), /proc/PID/mounts).
type mountTable struct {
	mu   sync.Mutex
	file *os.File
	seen *mountView // nil when the table has to be read
}

// view is the table as the machine with that root directory sees it.
func (m *mountTable) view(root int) (*mountView, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.read(root)
	if err != nil {
		m.seen = nil
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	return m.seen, nil
}

func (m *mountTable) read(root int) error {
	if m.file == nil {
		const table = "/proc/self/mountinfo"
		fd, err := unix.Open(table, unix.O_RDONLY|unix.O_CLOEXEC, 0) // os.Open would poll, and take the changes
		if err != nil {
			return &os.PathError{Op: "open", Path: table, Err: err}
		}
		m.file = os.NewFile(uintptr(fd), table)
	}
	changed := []unix.PollFd{{Fd: int32(m.file.Fd()), Events: unix.POLLPRI}}
	if n, err := unix.Poll(changed, 0); n == 0 && err == nil && m.seen != nil {
		return nil
	}
	mounts, err := mountinfo.GetMountsFromReader(io.NewSectionReader(m.file, 0, math.MaxInt64), nil)
	if err != nil {
		return err
	}
	dir, err := realPathOf(root)
	m.seen = newMountView(mounts, dir)
	return err
}

func (m *mountTable) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.file.Close() // nothing was written, and it may not be open
	m.file, m.seen = nil, nil
}

// IsMountPoint says whether name itself is a mount point.
func (f *Files) IsMountPoint(name string) (bool, error) {
	dir, err := f.realPath(name)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return mountinfo.Mounted(dir)
}

// Unmount detaches the file system at name. The machine must be live. For a mount
// in use the error (EBUSY) names the processes that use it; a lazy unmount would
// leave a writer behind.
func (h *Host) Unmount(name string) error {
	if !h.IsLive() {
		return fmt.Errorf("unmounting %s: %w", name, ErrMountedRoot)
	}
	err := h.Files.at("unmount", name, false, func(p place) error {
		// Use the descriptor of the parent folder: a descriptor of the mount itself
		// would keep the mount busy.
		dir, err := realPathOf(p.dir)
		if err != nil {
			return err
		}
		return unix.Unmount(strings.TrimSuffix(dir, "/")+"/"+p.base, unix.UMOUNT_NOFOLLOW)
	})
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%w; stop what uses it%s", err, h.usersOf(name))
	}
	return err
}

// usersOf names at most three processes that have files below a mount open, as far
// as /proc shows them.
func (h *Host) usersOf(mount string) string {
	dir, err := h.Files.realPath(mount)
	if err != nil {
		return ""
	}
	links, err := filepath.Glob("/proc/[0-9]*/*")
	if err != nil {
		return ""
	}
	var users []string
	for _, link := range links {
		process, what := filepath.Split(link)
		if what != "cwd" && what != "root" && what != "exe" && what != "fd" || !usesBelow(link, dir) {
			continue
		}
		comm, err := os.ReadFile(process + "comm")
		user := fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(comm)), filepath.Base(process))
		if err == nil && !slices.Contains(users, user) {
			users = append(users, user)
		}
	}
	if len(users) == 0 {
		return ""
	}
	return ": " + strings.Join(users[:min(len(users), 3)], ", ")
}

// usesBelow says whether a link of /proc/PID, or a link in its folder of open
// files, points to dir or below it.
func usesBelow(link, dir string) bool {
	if filepath.Base(link) == "fd" {
		open, err := os.ReadDir(link)
		return err == nil && slices.ContainsFunc(open, func(e os.DirEntry) bool {
			return usesBelow(filepath.Join(link, e.Name()), dir)
		})
	}
	to, err := os.Readlink(link)
	return err == nil && within(to, dir)
}

// realPath is the path of the directory name on the machine that this process runs
// on. Every link is resolved inside the root.
func (f *Files) realPath(name string) (string, error) {
	var dir string
	err := f.at("open", name, true, func(p place) error {
		fd, err := unix.Openat(p.dir, p.base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		dir, err = realPathOf(fd)
		return err
	})
	return dir, err
}

func realPathOf(fd int) (string, error) {
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

// mountID identifies the mount of an open directory. A bind mount of the same file
// system has the same device number but is another mount, so comparing devices is
// not enough.
func mountID(fd int) (uint64, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st)
	if err == nil && st.Mask&unix.STATX_MNT_ID != 0 {
		return st.Mnt_id, nil
	}
	return mountIDFromProc(fd) // before Linux 5.8
}

func mountIDFromProc(fd int) (uint64, error) {
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.ParseUint(strings.TrimSpace(v), 10, 64)
		}
	}
	return 0, fmt.Errorf("the kernel names no mount for an open directory")
}
