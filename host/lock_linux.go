package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Lock keeps other eksnode processes from changing the machine until unlock is
// called or this process ends. While another process has the lock, the error names
// that process.
//
// The lock is a flock(2) on the root directory itself. It makes no file, every path
// and every mount of the same directory shares it, and commands do not inherit it.
//
// A killed process may keep the lock for a moment. When the holder cannot be seen,
// Lock therefore waits up to two seconds.
func (h *Host) Lock() (unlock func() error, err error) {
	fd, err := unix.Openat(h.Files.root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", h.root, err)
	}
	dir := os.NewFile(uintptr(fd), h.root)
	st, err := dir.Stat()
	if err == nil {
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	}
	holder := ""
	end := time.Now().Add(lockPatience)
	for errors.Is(err, unix.EWOULDBLOCK) && holder == "" && time.Now().Before(end) {
		if holder = lockHolder("FLOCK", st); holder == "" {
			time.Sleep(lockPatience / 100)
			err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		}
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK) && holder != "":
		err = fmt.Errorf("another eksnode (%s) is working on %s; run again when that has ended", holder, h.root)
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("another eksnode that cannot be seen from here (in another container, or on another host) "+
			"is working on %s; run again when that has ended", h.root)
	case err != nil:
		err = fmt.Errorf("locking %s: %w", h.root, err)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir.Close, nil
}

// lockPatience is how long Lock waits for a holder that it cannot see. A command that a
// killed run was about to start holds the lock for that long.
const lockPatience = 2 * time.Second

// LockHolder describes the process that has a lock of fcntl(2) on a file of the live
// machine, such as "pid 7: rpm -i a.rpm". It returns "" if it sees none.
func (h *Host) LockHolder(path string) string {
	st, err := os.Stat(path)
	if err != nil || !h.IsLive() {
		return ""
	}
	return lockHolder("POSIX", st)
}

// lockHolder describes a process that has a lock on the inode of st, or is empty. The
// kind is that of lockPids.
func lockHolder(kind string, st os.FileInfo) string {
	table, err := os.ReadFile("/proc/locks")
	if err != nil {
		return ""
	}
	for _, pid := range lockPids(string(table), kind, st) {
		if hasOpen(pid, st) {
			return process(pid)
		}
	}
	return ""
}

// process describes a process by its number and command line.
func process(pid string) string {
	command, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	if err != nil || len(command) == 0 {
		return "pid " + pid
	}
	words := strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
	return fmt.Sprintf("pid %s: %s", pid, tail(words, 300))
}

// lockPids are the processes that have a lock of a kind on the inode of st, from the
// text of /proc/locks (proc_locks(5)): FLOCK of flock(2), POSIX of fcntl(2). The
// device numbers there can differ from those of stat(2), so hasOpen must confirm
// each process.
func lockPids(table, kind string, st os.FileInfo) []string {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	var pids []string
	for line := range strings.Lines(table) {
		f := strings.Fields(line) // 1: FLOCK ADVISORY WRITE 123 fe:01:4711 0 EOF
		if len(f) < 6 || f[1] != kind || !strings.HasSuffix(f[5], ":"+strconv.FormatUint(sys.Ino, 10)) {
			continue
		}
		pids = append(pids, f[4])
	}
	return pids
}

func hasOpen(pid string, st os.FileInfo) bool {
	names, err := filepath.Glob("/proc/" + pid + "/fd/*")
	if err != nil {
		return false
	}
	for _, name := range names {
		if other, err := os.Stat(name); err == nil && os.SameFile(st, other) {
			return true
		}
	}
	return false
}
