package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace that lives as long as its process. It has no
// name in the file system.
type namespace struct {
	file *os.File
	path string
}

// openNamespace opens the network namespace of a process.
func openNamespace(pid int) (*namespace, error) {
	path := fmt.Sprintf("/proc/%d/ns/net", pid)
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the network namespace: %w", err)
	}
	return &namespace{file: file, path: path}, nil
}

func (n *namespace) close() error { return n.file.Close() }

// do runs f on a thread inside the namespace. Sockets that f makes stay there;
// the rest of the program stays outside.
func (n *namespace) do(f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering the network namespace: %w", err)
	}
	defer home.Close()
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering the network namespace: %w", err)
	}
	err = f()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		// The thread stays locked, so the runtime ends it with its goroutine and
		// runs no other code on it.
		return errors.Join(err, fmt.Errorf("leaving the network namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}

// listen opens a listening socket in the namespace. The address must be
// literal: a lookup would use another thread.
func (n *namespace) listen(ctx context.Context, network, address string) (net.Listener, error) {
	var listener net.Listener
	err := n.do(func() (err error) {
		var config net.ListenConfig
		listener, err = config.Listen(ctx, network, address)
		return err
	})
	return listener, err
}

// dial connects from inside the namespace to a literal address.
func (n *namespace) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := n.do(func() (err error) {
		var dialer net.Dialer
		conn, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// command prepares a command that will run in the namespace. It keeps its
// process number, because nsenter replaces itself.
func (n *namespace) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + n.path, "--", name}, args...)...)
}
