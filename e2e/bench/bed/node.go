package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/e2e/delay"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// Node is a machine with Packer's communicator at the other end of a line.
type Node struct {
	machine *machine.Machine
	line    *forwarder // the line's end in the lab
	// Comm is what a builder hands to provisioners.
	Comm    packersdk.Communicator
	near    string // the line's other end
	bed     *Bed
	closers []func() error
}

// Boot makes a machine and connects with it. What the machine's SSH server logs
// is enough to count sessions.
func (b *Bed) Boot(ctx context.Context, id string) (*Node, error) {
	m, err := b.lab.Start(ctx, machine.Config{
		Kind: machine.Nspawn, Root: b.root, InstanceID: id,
		AuthorizedKeys: []string{b.key.Authorized}, Signer: b.key.Signer,
	})
	if err != nil {
		return nil, err
	}
	n := &Node{machine: m, bed: b, closers: []func() error{m.Close}}
	if err := n.connect(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) connect(ctx context.Context) error {
	// VERBOSE is the level at which sshd tells each session; see countSessions.
	// Boot is over when cloud-init is: it would compete with what is measured.
	_, err := n.Run(ctx, `cloud-init status --wait >/dev/null
systemctl is-system-running --wait >/dev/null || true
echo LogLevel VERBOSE >/etc/ssh/sshd_config.d/eksnode-bench.conf
systemctl reload ssh.service`)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for the line to the machine: %w", err)
	}
	address, port, user := n.machine.SSH()
	n.line = forward(ctx, listener, func(ctx context.Context) (net.Conn, error) {
		return n.bed.lab.Dial(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	})
	n.closers = append(n.closers, n.line.close)
	proxy, err := delay.Start(ctx, "127.0.0.1:0", listener.Addr().String(), n.bed.link)
	if err != nil {
		return err
	}
	n.closers = append(n.closers, proxy.Close)
	n.near = proxy.Addr()
	comm, end, err := communicate(ctx, n.near, user, n.bed.key.PEM)
	if err != nil {
		return err
	}
	n.closers = append(n.closers, end)
	n.Comm = comm
	return nil
}

// Close takes the machine away.
func (n *Node) Close() error {
	var errs []error
	for len(n.closers) > 0 {
		last := len(n.closers) - 1
		errs = append(errs, n.closers[last]())
		n.closers = n.closers[:last]
	}
	return errors.Join(errs...)
}

// Run runs a shell script as root, over a connection without delay, and
// answers what it printed. That it fails is an error.
func (n *Node) Run(ctx context.Context, script string) (string, error) {
	result, err := n.machine.Run(ctx, "sudo -n -- sh -eu", strings.NewReader(script))
	if err != nil {
		return "", err
	}
	if result.Code != 0 {
		return "", fmt.Errorf("running a script on the machine: exit status %d: %s%s", result.Code, result.Stdout, result.Stderr)
	}
	return result.Stdout, nil
}

// RoundTrip is how long SSH takes on the line to ask and be answered: the least
// of several times.
func (n *Node) RoundTrip(ctx context.Context) (time.Duration, error) {
	_, _, user := n.machine.SSH()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", n.near)
	if err != nil {
		return 0, fmt.Errorf("measuring the round trip: %w", err)
	}
	defer conn.Close()
	transport, channels, requests, err := ssh.NewClientConn(conn, n.near, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(n.bed.key.Signer)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), // a new machine, on a line with nobody else on it
	})
	if err != nil {
		return 0, fmt.Errorf("measuring the round trip: %w", err)
	}
	client := ssh.NewClient(transport, channels, requests)
	defer client.Close()
	least := time.Hour
	for range 10 {
		begin := time.Now()
		if _, _, err := client.SendRequest("keepalive@openssh.com", true, nil); err != nil {
			return 0, fmt.Errorf("measuring the round trip: %w", err)
		}
		least = min(least, time.Since(begin))
	}
	return least, nil
}

// Sessions is how many sessions the machine's SSH server has opened on the line
// so far, by its own log.
func (n *Node) Sessions(ctx context.Context) (int, error) {
	log, err := n.Run(ctx, "journalctl --sync\njournalctl --unit=ssh.service --output=cat --no-pager")
	if err != nil {
		return 0, fmt.Errorf("counting the SSH sessions: %w", err)
	}
	return countSessions(log, n.line.dialled()), nil
}

// countSessions counts sshd's lines "Starting session: command for USER from
// ADDRESS port PORT id N" (openssh's session.c, level VERBOSE) of connections
// from these ports.
func countSessions(log string, ports []int) (count int) {
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "Starting session: ") {
			continue
		}
		for _, port := range ports {
			if strings.Contains(line, " port "+strconv.Itoa(port)+" id ") {
				count++
			}
		}
	}
	return count
}

// Screen is a Packer UI that writes to out what a person would see.
func Screen(out io.Writer) packersdk.Ui {
	return &packersdk.BasicUi{Reader: strings.NewReader(""), Writer: out, ErrorWriter: out}
}
