package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
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
	return mountsBelow(dir, name, false)
}

// mountsBelow lists the mounts below the directory dir, which the machine calls
// name. With itself, it also lists a mount on the directory.
func mountsBelow(dir, name string, itself bool) ([]Mount, error) {
	prefix := strings.TrimSuffix(dir, "/") + "/"
	infos, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(i.Mountpoint, prefix) && (!itself || i.Mountpoint != dir), false
	})
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	mounts := make([]Mount, 0, len(infos))
	for _, i := range infos {
		at := name
		if i.Mountpoint != dir {
			at = strings.TrimSuffix(name, "/") + "/" + strings.TrimPrefix(i.Mountpoint, prefix)
		} else if !itself { // the root file system, for the name "/"
			continue
		}
		mounts = append(mounts, Mount{Path: at, Type: i.FSType, Source: i.Source})
	}
	sort.SliceStable(mounts, func(a, b int) bool {
		return strings.Count(mounts[a].Path, "/") > strings.Count(mounts[b].Path, "/")
	})
	return mounts, nil
}

// noMountNames says whether the mount table surely has nothing on or below dir. It
// is quick: a large removal consists of thousands of small ones, and reading the
// table for each took a twentieth of the time.
func (f *Files) noMountNames(dir string) (bool, error) {
	if strings.ContainsAny(dir, " \t\n\\#") { // mountinfo(5) escapes these characters
		return false, nil
	}
	table, err := f.mounts.read()
	if err != nil {
		return false, fmt.Errorf("reading the mount table: %w", err)
	}
	return !bytes.Contains(table, []byte(" "+dir+" ")) && !bytes.Contains(table, []byte(" "+strings.TrimSuffix(dir, "/")+"/")), nil
}

// mountTable is the kernel's table of mounts. It is read again only when poll(2)
// reports a change (proc(5), /proc/PID/mounts).
type mountTable struct {
	mu   sync.Mutex
	open bool
	fd   int
	text []byte
	seen *mountView // made from the text
}

func (m *mountTable) read() (text []byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current()
}

// view is the table as the machine with that root directory sees it.
func (m *mountTable) view(root int) (*mountView, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, err := m.current()
	if err == nil && m.seen == nil {
		var mounts []*mountinfo.Info
		if mounts, err = parseMounts(text); err == nil {
			var dir string
			dir, err = realPathOf(root)
			m.seen = newMountView(mounts, dir)
		}
	}
	if err != nil {
		m.seen = nil
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	return m.seen, nil
}

func parseMounts(table []byte) ([]*mountinfo.Info, error) {
	return mountinfo.GetMountsFromReader(bytes.NewReader(table), nil)
}

func (m *mountTable) current() (text []byte, err error) {
	if m.open {
		changed := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}}
		if n, err := unix.Poll(changed, 0); n == 0 && err == nil {
			return m.text, nil
		}
	} else if m.fd, err = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	m.open, m.seen = true, nil
	if m.text, err = readFrom(m.fd); err != nil {
		m.closeFile() // so that the next call reads the table again
	}
	return m.text, err
}

// readFrom reads a kernel file from its beginning.
func readFrom(fd int) ([]byte, error) {
	var text []byte
	for buf := make([]byte, 16<<10); ; {
		n, err := unix.Pread(fd, buf, int64(len(text)))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return text, err
		}
		text = append(text, buf[:n]...)
	}
}

func (m *mountTable) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closeFile()
}

func (m *mountTable) closeFile() {
	if m.open {
		_ = unix.Close(m.fd)
		m.open = false
	}
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
		return err == nil && slices.ContainsFunc(open, func(e os.DirEntry) bool { return usesBelow(filepath.Join(link, e.Name()), dir) })
	}
	to, err := os.Readlink(link)
	return err == nil && (to == dir || strings.HasPrefix(to, dir+"/"))
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
