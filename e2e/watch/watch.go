//go:build linux

// Package watch stops a program right before each change that it, or a program
// that it starts, makes to a file system. A test can kill the program there:
// after an exact number of changes, on a machine of any speed. The kernel stops
// the program (seccomp_unotify(2)); watch needs root.
package watch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of linux/seccomp.h without names in x/sys.
const (
	ioctlReceive = 0xC0502100 // SECCOMP_IOCTL_NOTIF_RECV
	ioctlSend    = 0xC0182101 // SECCOMP_IOCTL_NOTIF_SEND
	flagContinue = 1          // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

// notification is struct seccomp_notif.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// Run is a started program.
type Run struct {
	cmd  *exec.Cmd
	gone chan struct{}
	err  error // error of the watcher; read it after gone is closed
}

// Start starts a command. Its path must be absolute, and it must have no extra
// files. Before each change, Start calls before with the id of the thread that
// is about to make it. If before returns false, the change is never made:
// before has killed the process.
func Start(cmd *exec.Cmd, before func(thread int) bool) (*Run, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("making sockets: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	cmd.Args = append([]string{cmd.Path, becoming, cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.ExtraFiles = "/proc/self/exe", []*os.File{theirs}
	if err := errors.Join(cmd.Start(), theirs.Close()); err != nil {
		return nil, fmt.Errorf("starting %q: %w", cmd.Args[2:], err)
	}
	listener, err := receive(ours)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %q: %w", cmd.Args[2:], err), cmd.Process.Kill(), cmd.Wait())
	}
	r := &Run{cmd: cmd, gone: make(chan struct{})}
	go func() {
		r.err = errors.Join(decide(listener, before), unix.Close(listener))
		close(r.gone)
	}()
	return r, nil
}

// Wait waits until the program has ended, and returns its exit error. Programs
// that it started may still run.
func (r *Run) Wait() error { return r.cmd.Wait() }

// Gone is closed when every program that the program started has ended too.
func (r *Run) Gone() <-chan struct{} { return r.gone }

// Err returns the watcher's error once Gone is closed.
func (r *Run) Err() error { return r.err }

// receive receives the listener that become sends.
func receive(from *os.File) (int, error) {
	conn, err := net.FileConn(from)
	if err != nil {
		return 0, fmt.Errorf("receiving the listener: %w", err)
	}
	defer conn.Close()
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return 0, fmt.Errorf("receiving the listener: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return 0, errors.Join(errors.New("receiving the listener: the program ended before sending the listener"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, fmt.Errorf("receiving the listener: %w", err)
	}
	return fds[0], nil
}

// decide calls before for each change until no watched process is left.
func decide(listener int, before func(thread int) bool) error {
	for {
		n, ok, err := next(listener)
		if err != nil || !ok {
			return err
		}
		if !before(int(n.pid)) {
			continue
		}
		a := answer{id: n.id, flags: flagContinue}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlSend, uintptr(unsafe.Pointer(&a)))
		if errno != 0 && errno != unix.ENOENT { // the caller has ended in the meantime
			return fmt.Errorf("letting a change happen: %w", errno)
		}
	}
}

// next waits for the next change. It returns false when no watched process is
// left.
func next(listener int) (notification, bool, error) {
	for {
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && err != unix.EINTR {
			return notification{}, false, fmt.Errorf("waiting for a change: %w", err)
		} else if err == nil && poll[0].Revents&unix.POLLIN == 0 {
			return notification{}, false, nil
		} else if err != nil {
			continue
		}
		var n notification
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlReceive, uintptr(unsafe.Pointer(&n)))
		switch errno {
		case 0:
			return n, true, nil
		case unix.ENOENT, unix.EINTR: // the caller has ended in the meantime
		default:
			return notification{}, false, fmt.Errorf("waiting for a change: %w", errno)
		}
	}
}

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
