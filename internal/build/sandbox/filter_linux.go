package sandbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hidden are files of the kernel that show this machine: its disks, keys and firmware.
var hidden = []string{
	"/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kmsg", "/proc/partitions", "/proc/diskstats",
	"/sys/block", "/sys/class/block", "/sys/dev/block", "/sys/firmware", "/sys/fs/cgroup", "/sys/kernel/debug",
}

// hide covers the hidden files and folders with empty ones.
func hide() error {
	for _, name := range hidden {
		info, err := os.Stat(name)
		if errors.Is(err, os.ErrNotExist) { // depends on the kernel
			continue
		}
		if err == nil && info.IsDir() {
			err = unix.Mount("tmpfs", name, "tmpfs", plain|unix.MS_NOEXEC|unix.MS_RDONLY, "size=4k")
		} else if err == nil {
			err = unix.Mount("/dev/null", name, "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("hiding %s: %w", name, err)
		}
	}
	return nil
}

// calls are the numbers of system calls of an architecture: unshare, clone, clone3,
// add_key, request_key and keyctl. Linux: arch/*/syscalls and include/uapi/asm-generic.
type calls struct{ arch, unshare, clone, clone3, addKey, requestKey, keyctl uint32 }

var tables = []calls{
	{unix.AUDIT_ARCH_X86_64, 272, 56, 435, 248, 249, 250},
	{unix.AUDIT_ARCH_I386, 310, 120, 435, 286, 287, 288},
	{unix.AUDIT_ARCH_AARCH64, 97, 220, 435, 217, 218, 219},
	{unix.AUDIT_ARCH_ARM, 337, 120, 435, 309, 310, 311},
}

// filterCalls takes from all programs inside what needs no capability and leads out:
// user namespaces, in which they could mount, and the keys of root on this machine.
func filterCalls() error {
	code := filter()
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("filtering system calls: %w", errno)
	}
	return nil
}

// filter is the program for seccomp(2), for each architecture of programs.
func filter() []unix.SockFilter {
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS // of struct seccomp_data
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		set   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		end   = unix.BPF_RET | unix.BPF_K

		number, arch, argument = 0, 4, 16
		refused, unknown       = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM),
			unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	)
	all := []unix.SockFilter{{Code: load, K: arch}}
	for _, c := range tables {
		part := []unix.SockFilter{
			{Code: load, K: number},
			{Code: equal, K: c.clone3, Jf: 1}, {Code: end, K: unknown}, // libraries then take clone
			{Code: equal, K: c.addKey, Jt: 2}, {Code: equal, K: c.requestKey, Jt: 1}, {Code: equal, K: c.keyctl, Jf: 1},
			{Code: end, K: refused},
			{Code: equal, K: c.unshare, Jt: 1}, {Code: equal, K: c.clone, Jf: 3},
			{Code: load, K: argument}, {Code: set, K: unix.CLONE_NEWUSER, Jf: 1}, {Code: end, K: refused},
			{Code: end, K: unix.SECCOMP_RET_ALLOW},
		}
		all = append(all, unix.SockFilter{Code: equal, K: c.arch, Jf: uint8(len(part))})
		all = append(all, part...)
	}
	return append(all, unix.SockFilter{Code: end, K: unknown})
}

// scopeSockets keeps the programs inside from abstract Unix sockets of this machine, which
// belong to the network namespace. Linux before 6.12 cannot do that.
func scopeSockets() error {
	scope := struct{ files, network, scoped uint64 }{scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&scope)),
		unsafe.Sizeof(scope), 0)
	if errno != 0 {
		return nil
	}
	defer unix.Close(int(fd))
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("leaving the sockets of this machine: %w", errno)
	}
	return nil
}
