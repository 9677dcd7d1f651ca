package machine

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"embed"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// Process is a child that never outlives the harness: the kernel kills it when
// the harness dies, even by SIGKILL.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // result of Wait; read it after done is closed
}

// Spawn starts cmd in a process group of its own. A Ctrl-C at the terminal then
// reaches only the harness, which stops its children in order.
func Spawn(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the signal when the *thread* that started the child ends
		// (https://go.dev/issue/27505): keep the thread until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	return p, nil
}

// PID returns the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether the child has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal does nothing on a child that has ended.
func (p *Process) Signal(signal syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	if err := p.cmd.Process.Signal(signal); err != nil && p.Running() {
		return fmt.Errorf("signalling %s: %w", p.cmd.Path, err)
	}
	return nil
}

// Wait returns when the child has ended or ctx has.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s to end: %w", p.cmd.Path, context.Cause(ctx))
	}
}

// Kill kills the child and waits until it has ended.
func (p *Process) Kill() error {
	if p == nil {
		return nil
	}
	err := p.Signal(syscall.SIGKILL)
	if err == nil {
		<-p.done
	}
	return err
}

// Exit describes how the child ended.
func (p *Process) Exit() error {
	<-p.done
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// do runs a command. An error says what it was to do, and has its output.
func do(doing string, cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", doing, err, strings.TrimSpace(string(out)))
	}
	return nil
}

//go:embed scripts
var scripts embed.FS

// script returns scripts of the folder scripts as one.
func script(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		text, err := scripts.ReadFile("scripts/" + name + ".sh")
		if err != nil {
			panic(err) // the file is part of the program
		}
		all.Write(text)
	}
	return all.String()
}

// Hopeless is an error that ends the waiting.
type Hopeless struct{ Err error }

// Error implements error.
func (h Hopeless) Error() string { return h.Err.Error() }

// Poll checks a condition until it holds, returns Hopeless, or ctx ends. The
// error contains the condition's last error.
func Poll(ctx context.Context, condition func() error) error {
	return PollEvery(ctx, 100*time.Millisecond, condition)
}

// PollEvery is Poll with another interval, for expensive conditions.
func PollEvery(ctx context.Context, interval time.Duration, condition func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var missing error
	for {
		err := condition()
		var end Hopeless
		switch {
		case err == nil:
			return nil
		case errors.As(err, &end):
			return end.Err
		case ctx.Err() == nil || missing == nil:
			missing = err // later errors only say that the time is over
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), missing)
		case <-ticker.C:
		}
	}
}

// Key is a key pair for logging in to machines.
type Key struct {
	Signer ssh.Signer
	// Authorized is the public key, a line for authorized_keys without the newline.
	Authorized string
	// PEM is the private key in OpenSSH's format, for ssh_private_key_file.
	PEM []byte
}

// NewKey makes an Ed25519 key pair. The comment appears in the machine's
// authorized_keys, where a test can look for it.
func NewKey(comment string) (Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("making a key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return Key{}, fmt.Errorf("making a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return Key{}, fmt.Errorf("making a key: %w", err)
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	return Key{Signer: signer, Authorized: line + " " + comment, PEM: pem.EncodeToMemory(block)}, nil
}

// Result is the result of a command on a machine.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// sshAttempt bounds one attempt to connect and log in. An emulated machine on a
// busy host takes seconds for the key exchange alone.
const sshAttempt = 30 * time.Second

func (m *Machine) connect(ctx context.Context) (*ssh.Client, error) {
	return m.Login(ctx, m.config.User)
}

// Login opens a connection to the machine as a user who accepts the machine's
// key.
func (m *Machine) Login(ctx context.Context, user string) (*ssh.Client, error) {
	config := &ssh.ClientConfig{
		User: user,
		// A new machine's host key is unknown, and the link has no third party on
		// it.
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	}
	if m.config.Signer != nil {
		config.Auth = []ssh.AuthMethod{ssh.PublicKeys(m.config.Signer)}
	}
	attempt, cancel := context.WithTimeout(ctx, sshAttempt)
	defer cancel()
	conn, err := m.lab.namespace.dial(attempt, "tcp", m.sshAddress())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(attempt, func() { conn.Close() })
	defer stop()
	transport, channels, requests, err := ssh.NewClientConn(conn, m.sshAddress(), config)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return ssh.NewClient(transport, channels, requests), nil
}

// ready reports whether the machine accepts logins. Without a signer, an sshd
// that refuses the login is ready.
func (m *Machine) ready(ctx context.Context) error {
	client, err := m.connect(ctx)
	if err == nil {
		return client.Close()
	}
	if m.config.Signer == nil && strings.Contains(err.Error(), "unable to authenticate") {
		return nil
	}
	return err
}

// Run runs a shell command on the machine, as the machine's user, and returns
// output and exit code. A code other than 0 is no error. stdin may be nil. The
// configuration must have a Signer.
func (m *Machine) Run(ctx context.Context, command string, stdin io.Reader) (Result, error) {
	client, err := m.connect(ctx)
	if err != nil {
		return Result{}, m.fail("logging in to the machine", err)
	}
	defer client.Close()
	result, err := RunOver(ctx, client, command, stdin)
	if err != nil {
		err = m.fail("running a command", err)
	}
	return result, err
}

// RunOver runs a command like Run over an open connection, which ends with ctx.
func RunOver(ctx context.Context, client *ssh.Client, command string, stdin io.Reader) (Result, error) {
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()
	session, err := client.NewSession()
	if err != nil {
		return Result{}, fmt.Errorf("opening a session: %w", err)
	}
	defer session.Close()
	var stdout, stderr bytes.Buffer
	session.Stdin, session.Stdout, session.Stderr = stdin, &stdout, &stderr
	err = session.Run(command)
	result := Result{Stdout: stdout.String(), Stderr: stderr.String()}
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		result.Code, err = exit.ExitStatus(), nil
	}
	if err != nil {
		err = fmt.Errorf("running %q: %w", command, errors.Join(context.Cause(ctx), err))
	}
	return result, err
}
