//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// openDescriptor opens /dev/stdout and the like. This program's own share their
// place in the file with whatever else it prints; those of others are appended
// to.
func openDescriptor(name, path string) (*os.File, error) {
	if !strings.HasPrefix(path, fmt.Sprintf("/proc/%d/", os.Getpid())) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return nil, cannotWrite(name, err)
		}
		return f, takes(name, f)
	}
	number, err := strconv.Atoi(filepath.Base(path))
	if err != nil {
		return nil, fmt.Errorf("%s is not open", name)
	}
	// Files that this program opened itself close when it executes another.
	own, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0)
	if err != nil || own&unix.FD_CLOEXEC != 0 {
		return nil, fmt.Errorf("%s is not open", name)
	}
	flags, err := unix.FcntlInt(uintptr(number), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY {
		return nil, fmt.Errorf("%s is not open for writing", name)
	}
	twin, err := unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, cannotWrite(name, err)
	}
	f := os.NewFile(uintptr(twin), name)
	return f, takes(name, f)
}

// isFixed says that an error is that of a file which no other can replace: on a
// read-only folder, or a mount of its own.
func isFixed(err error) bool { return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EBUSY) }

func keepOwner(file *os.File, old fs.FileInfo) error {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		return file.Chown(int(st.Uid), int(st.Gid))
	}
	return nil
}
