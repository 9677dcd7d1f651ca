//go:build e2e

package scrub_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// watchedArgument makes the test's own program become another one that is
// watched; see becomeWatched.
const watchedArgument = "become-watched"

// changing are the system calls by which a scrub changes a file system, besides
// openat with O_CREAT. Writing is not among them: only new files are written
// to, and their openat counts.
var changing = []uint32{
	unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_FTRUNCATE, unix.SYS_MKDIRAT, unix.SYS_FCHMOD,
	unix.SYS_FCHOWN, unix.SYS_SYMLINKAT, unix.SYS_LINKAT, unix.SYS_FSETXATTR,
}

// Of linux/seccomp.h, where x/sys has no names.
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

// filter lets the watcher decide on the changing system calls.
func filter() []unix.SockFilter {
	const (
		load, equal, set, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		number, openFlags     = 0, 16 + 2*8 // offsets in struct seccomp_data
	)
	program := []unix.SockFilter{{Code: load, K: number}}
	rest := len(changing) + 4 // instructions from the first comparison to the end, without the watcher's
	for i, nr := range changing {
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

// becomeWatched puts the filter on this process, hands its listener to the
// watcher through file descriptor 3, and becomes the program of args. It
// returns only on failure.
func becomeWatched(args []string) error {
	runtime.LockOSThread() // the filter is the thread's, and stays over exec
	f := filter()
	program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("watching system calls: %w", errno)
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(listener)), nil, 0); err != nil {
		return fmt.Errorf("handing the listener over: %w", err)
	}
	unix.CloseOnExec(int(listener))
	unix.CloseOnExec(3)
	return fmt.Errorf("running %q: %w", args, unix.Exec(args[0], args, os.Environ()))
}

// runWatched runs a program and kills it right before its kill-th change of a
// file system, so that exactly kill-1 of them were made. With a kill that it
// never comes to it ends by itself. It returns how many changes it tried.
func runWatched(t *testing.T, kill int, args ...string) (changes int, killed bool) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", append([]string{watchedArgument}, args...)...)
	cmd.ExtraFiles = []*os.File{theirs}
	out, err := os.CreateTemp(t.TempDir(), "out")
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	require.NoError(t, theirs.Close())
	listener := receive(t, ours)
	defer unix.Close(listener)

	for !killed {
		n, ok := next(t, listener)
		if !ok {
			break
		}
		changes++
		if changes == kill {
			killed = true
			require.NoError(t, cmd.Process.Kill())
			break
		}
		a := answer{id: n.id, flags: flagContinue}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlSend, uintptr(unsafe.Pointer(&a)))
		if errno != 0 && errno != unix.ENOENT {
			require.NoError(t, errno)
		}
	}
	err = cmd.Wait()
	if !killed {
		said, readErr := os.ReadFile(out.Name())
		require.NoError(t, errors.Join(err, readErr), "%s", said)
	}
	return changes, killed
}

// receive takes the listener that becomeWatched sends.
func receive(t *testing.T, from *os.File) int {
	t.Helper()
	conn, err := net.FileConn(from)
	require.NoError(t, err)
	require.NoError(t, from.Close())
	defer conn.Close()
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), rights)
	require.NoError(t, err)
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	require.NoError(t, err)
	require.Len(t, messages, 1, "the program did not come so far")
	fds, err := unix.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	return fds[0]
}

// next waits for the next change; false says that the program has ended.
func next(t *testing.T, listener int) (notification, bool) {
	t.Helper()
	for {
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err == unix.EINTR {
			continue
		} else {
			require.NoError(t, err)
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			return notification{}, false
		}
		var n notification
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlReceive, uintptr(unsafe.Pointer(&n)))
		switch errno {
		case 0:
			return n, true
		case unix.ENOENT, unix.EINTR: // the caller has ended meanwhile
		default:
			require.NoError(t, errno)
		}
	}
}
