//go:build linux

// Package sshtest is a machine for the plugin's tests: an SSH server in the
// test's own process whose commands run on the machine that runs the test.
package sshtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// Machine is an SSH server that runs commands as sshd does: through a
// shell, with pipes; when the connection goes, the command's standard input
// closes and its output leads nowhere.
type Machine struct {
	t      *testing.T
	listen net.Listener
	config *ssh.ServerConfig
	// Shell makes the process for a command; nil is the user's /bin/sh.
	Shell func(command string) *exec.Cmd
	// Terminal gives every command a terminal, whether it asks or not.
	Terminal bool

	mu       sync.Mutex
	conns    []net.Conn
	commands []string
	taken    atomic.Int64
	wg       sync.WaitGroup
}

// New starts a machine that lets everybody in with any password, and ends it
// with the test.
func New(t *testing.T) *Machine {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := &Machine{t: t, listen: listen, config: &ssh.ServerConfig{
		PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, nil },
	}}
	m.config.AddHostKey(signer)
	m.wg.Go(m.serve)
	t.Cleanup(func() {
		listen.Close()
		m.Cut()
		m.wg.Wait()
	})
	return m
}

// Address is where the machine listens.
func (m *Machine) Address() (host string, port int) {
	a := m.listen.Addr().(*net.TCPAddr)
	return a.IP.String(), a.Port
}

func (m *Machine) serve() {
	for {
		conn, err := m.listen.Accept()
		if err != nil {
			return // the test is over
		}
		m.mu.Lock()
		m.conns = append(m.conns, conn)
		m.mu.Unlock()
		m.wg.Go(func() { m.login(conn) })
	}
}

// Cut ends every connection without a word.
func (m *Machine) Cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, conn := range m.conns {
		conn.Close()
	}
	m.conns = nil
}

// Asked lists the commands the machine was given.
func (m *Machine) Asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.commands...)
}

// Taken is how many bytes were sent to the commands.
func (m *Machine) Taken() int64 { return m.taken.Load() }

// counter counts what is written.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

func (m *Machine) login(conn net.Conn) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, m.config)
	if err != nil {
		return // Packer tries the port before it speaks SSH
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		if c.ChannelType() != "session" {
			c.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		m.wg.Go(func() { m.session(channel, requests) })
	}
}

func (m *Machine) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for r := range requests {
		if r.Type != "exec" {
			r.Reply(r.Type == "pty-req", nil)
			continue
		}
		var command struct{ Line string }
		if err := ssh.Unmarshal(r.Payload, &command); err != nil {
			return
		}
		r.Reply(true, nil)
		go ssh.DiscardRequests(requests)
		status := m.execute(command.Line, channel)
		channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		return
	}
}

func (m *Machine) execute(line string, channel ssh.Channel) uint32 {
	m.mu.Lock()
	m.commands = append(m.commands, line)
	m.mu.Unlock()
	cmd := exec.Command("/bin/sh", "-c", line)
	if m.Shell != nil {
		cmd = m.Shell(line)
	}
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	if m.Terminal {
		master, slave, err := testkit.OpenTerminal()
		if err != nil {
			m.t.Error(err)
			return 255
		}
		m.t.Cleanup(func() { master.Close() })
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		printed := make(chan struct{})
		go func() {
			defer close(printed)
			io.Copy(channel, master) // ends when nobody has the slave open any more
		}()
		defer func() {
			slave.Close()
			<-printed
		}()
	} else {
		stdin, err := cmd.StdinPipe()
		if err != nil {
			m.t.Error(err)
			return 255
		}
		go func() {
			io.Copy(stdin, io.TeeReader(channel, counter{&m.taken})) // ends with the command, or with the connection
			stdin.Close()
		}()
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			return 128 + uint32(status.Signal())
		}
		return uint32(exit.ExitCode())
	case cmd.ProcessState == nil:
		m.t.Errorf("running a command on the test's machine: %v", err)
		return 255
	}
	return 0 // perhaps its output found no reader
}
