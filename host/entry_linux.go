package host

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// shortened cuts a path that is longer than PATH_MAX, for messages.
func shortened(name string) string {
	const most, end = unix.PathMax, 256
	if len(name) <= most {
		return name
	}
	return name[:most-end] + "…" + name[len(name)-end:]
}

// unlinkat and openat take names as getdents returns them, without a copy.
func unlinkat(dir int, name []byte, flags int) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(&name[0])), uintptr(flags))
	return errno
}

// unlinkatAlone is unlinkat for a sweep with one worker. It does not tell Go's
// scheduler that the thread is in the kernel. Otherwise the scheduler would hand
// the processor to another thread and take it back for every call that lasts a
// little longer. Several workers must not use it: they would keep each other from
// waiting for the disk at the same time.
func unlinkatAlone(dir int, name []byte, flags int) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(&name[0])), uintptr(flags))
	return errno
}

func renameat(dir int, name []byte, toDir int, to []byte) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_RENAMEAT2, uintptr(dir), uintptr(unsafe.Pointer(&name[0])),
		uintptr(toDir), uintptr(unsafe.Pointer(&to[0])), unix.RENAME_NOREPLACE, 0)
	return errno
}

func openat2(dir int, name []byte) (int, unix.Errno) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS,
	}
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(&name[0])),
			uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if errno != unix.EINTR && errno != unix.EAGAIN {
			return int(fd), errno
		}
	}
}

func openat(dir int, name []byte) (int, unix.Errno) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&name[0])),
			unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0, 0, 0)
		if errno != unix.EINTR {
			return int(fd), errno
		}
	}
}
