//go:build linux

package watch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// becoming is the argument that makes a test's own program become the watched
// program.
const becoming = "become-watched"

// changing lists the system calls that change a file system, in addition to
// openat with O_CREAT. write is not in the list: the openat that creates the
// file counts.
func changing() []uint32 {
	calls := []uint32{
		unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_FTRUNCATE, unix.SYS_MKDIRAT, unix.SYS_FCHMOD, unix.SYS_FCHMODAT,
		unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_SYMLINKAT, unix.SYS_LINKAT, unix.SYS_FSETXATTR,
	}
	if runtime.GOARCH == "amd64" {
		// rename, mkdir, rmdir, link, unlink, symlink, chmod, chown and lchown,
		// which the C library uses on amd64; other processors have none of them.
		calls = append(calls, 82, 83, 84, 86, 87, 88, 90, 92, 94)
	}
	return calls
}

// filter makes the kernel ask the watcher about changing system calls.
func filter() []unix.SockFilter {
	const (
		load, equal, set, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		number, openFlags     = 0, 16 + 2*8 // offsets in struct seccomp_data
	)
	calls := changing()
	program := []unix.SockFilter{{Code: load, K: number}}
	rest := len(calls) + 4 // instructions from the first comparison to the end, without the watcher's
	for i, nr := range calls {
		program = append(program, unix.SockFilter{Code: equal, K: nr, Jt: uint8(rest - i - 1)})
	}
	return append(program,
		unix.SockFilter{Code: equal, K: unix.SYS_OPENAT, Jf: 2},
		unix.SockFilter{Code: load, K: openFlags},
		unix.SockFilter{Code: set, K: unix.O_CREAT, Jt: 1},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_USER_NOTIF},
	)
}

// Become turns this process into the watched program when Start has started it.
// Tests that use Start must call Become first in their TestMain.
func Become() {
	if len(os.Args) < 2 || os.Args[1] != becoming {
		return
	}
	fmt.Fprintln(os.Stderr, become(os.Args[2:]))
	os.Exit(1)
}

// become puts the filter on this process, sends its listener to the watcher
// through file descriptor 3, and becomes the program of args. It returns only
// on failure.
func become(args []string) error {
	if len(args) == 0 {
		return errors.New("watching a program: no program named")
	}
	runtime.LockOSThread() // the filter belongs to the thread, and stays over exec
	f := filter()
	program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("watching system calls: %w", errno)
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(listener)), nil, 0); err != nil {
		return fmt.Errorf("sending the listener: %w", err)
	}
	unix.CloseOnExec(int(listener))
	unix.CloseOnExec(3)
	return fmt.Errorf("running %q: %w", args, unix.Exec(args[0], args, os.Environ()))
}
