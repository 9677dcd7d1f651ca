package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Commands runs shell commands in a sandbox, one or several at a time. Its other end is
// Serve, in the process inside. That process ends when Commands is closed.
type Commands struct{ conn *net.UnixConn }

// NewCommands returns both ends. The second is the file for Serve.
func NewCommands() (*Commands, *os.File, error) {
	conn, inside, err := pair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, nil, err
	}
	return &Commands{conn}, inside, nil
}

func pair(kind int) (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a connection to the sandbox: %w", err)
	}
	here, there := os.NewFile(uintptr(fds[0]), "commands"), os.NewFile(uintptr(fds[1]), "sandbox")
	defer here.Close() // FileConn duplicates it
	conn, err := net.FileConn(here)
	if err != nil {
		return nil, nil, errors.Join(err, there.Close())
	}
	return conn.(*net.UnixConn), there, nil
}

// Close ends the process inside, and all that it started.
func (c *Commands) Close() error { return c.conn.Close() }

// commandMost is the length of a command that a message holds.
const commandMost = 128 << 10

// outputAfter is how long the output of a command may stay open after its end. A process
// in the background can hold it.
const outputAfter = 2 * time.Second

// Run runs a command of /bin/sh, and returns its exit code. A signal gives 128 and its
// number. When ctx ends, the command's process group gets SIGTERM.
func (c *Commands) Run(ctx context.Context, command string, in io.Reader, out, errOut io.Writer) (code int, err error) {
	if len(command) > commandMost {
		return 0, fmt.Errorf("the command has %d bytes; the most is %d", len(command), commandMost)
	}
	end, endInside, err := pair(unix.SOCK_STREAM)
	if err != nil {
		return 0, err
	}
	defer end.Close()
	given := []*os.File{endInside}
	var own []*os.File
	defer func() {
		for _, f := range slices.Concat(given, own) {
			f.Close()
		}
	}()
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return 0, fmt.Errorf("making a pipe to the sandbox: %w", err)
		}
		if i == 0 {
			r, w = w, r
		}
		given, own = append(given, w), append(own, r)
	}
	var fds []int
	for _, f := range given {
		fds = append(fds, int(f.Fd()))
	}
	if _, _, err := c.conn.WriteMsgUnix([]byte(command), unix.UnixRights(fds...), nil); err != nil {
		return 0, fmt.Errorf("sending the command to the sandbox: %w", err)
	}
	for _, f := range given {
		f.Close()
	}
	go func() { // in may block for longer than the command runs
		if in != nil {
			_, _ = io.Copy(own[0], in) // the command may end before it has read all
		}
		own[0].Close()
	}()
	var copying sync.WaitGroup
	for i, to := range []io.Writer{out, errOut} {
		if to == nil {
			to = io.Discard
		}
		copying.Go(func() { _, _ = io.Copy(to, own[i+1]) }) // ends with the pipe
	}
	stop := context.AfterFunc(ctx, func() { _ = end.CloseWrite() })
	defer stop()
	var answer [4]byte
	_, err = io.ReadFull(end, answer[:])
	late := time.AfterFunc(outputAfter, func() {
		for _, f := range own[1:] {
			f.Close()
		}
	})
	defer late.Stop()
	copying.Wait()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("the sandbox ended before the command: %w", err)
	}
	return int(int32(binary.BigEndian.Uint32(answer[:]))), nil
}

// Serve runs the commands of the other end, until that end is closed. The caller has
// called Enter.
func Serve(inside *os.File) error {
	made, err := net.FileConn(inside)
	if err != nil {
		return fmt.Errorf("opening the connection for commands: %w", err)
	}
	conn, ok := made.(*net.UnixConn)
	if !ok {
		return errors.New("the connection for commands is no Unix socket")
	}
	command, rights := make([]byte, commandMost), make([]byte, unix.CmsgSpace(4*4))
	for {
		n, size, _, _, err := conn.ReadMsgUnix(command, rights)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a command: %w", err)
		}
		files, err := received(rights[:size])
		if err != nil {
			return err
		}
		go serve(string(command[:n]), files)
	}
}

func received(rights []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err == nil && len(messages) != 1 {
		err = fmt.Errorf("%d messages came with the command, not 1", len(messages))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the files of a command: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, fmt.Errorf("reading the files of a command: %w", err)
	}
	var files []*os.File
	for _, fd := range fds {
		files = append(files, os.NewFile(uintptr(fd), "command"))
	}
	return files, nil
}

// login is the environment of a command, that of root's login.
var login = []string{
	searchPath, "HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/sh",
	"SYSTEMD_OFFLINE=1", // systemctl changes files alone
}

// serve runs one command. The first file is the connection that gets its exit code.
func serve(command string, files []*os.File) {
	end := files[0]
	defer end.Close()
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Env, cmd.Dir = login, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[1], files[2], files[3]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Start()
	for _, f := range files[1:] {
		f.Close()
	}
	code := 127
	if err == nil {
		over := make(chan struct{})
		go func() {
			var none [1]byte
			_, _ = end.Read(none[:]) // returns when nobody waits for the command
			select {
			case <-over:
			default:
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
				time.AfterFunc(patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
			}
		}()
		_ = cmd.Wait() // the state says more
		close(over)
		code = cmd.ProcessState.ExitCode()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = 128 + int(status.Signal())
		}
	}
	_, _ = end.Write(binary.BigEndian.AppendUint32(nil, uint32(code))) // nobody may wait
}
