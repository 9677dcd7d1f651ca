//go:build e2e

package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// node is a machine with a session of root's that stays open: what it sees does
// not depend on sudo, on accounts or on new logins.
type node struct {
	*machine.Machine
	bench *bench
	root  *ssh.Client
}

// start boots a machine from the base system.
func (b *bench) start(t *testing.T, id string) *node {
	t.Helper()
	begin := time.Now()
	m, err := b.Start(b.ctx, machine.Config{
		Root: b.root, InstanceID: id, AuthorizedKeys: []string{b.key.Authorized}, Signer: b.key.Signer,
		ReadyWithin: patience,
	})
	require.NoError(t, err)
	// cloud-init has let the key in for root too, to say that root is not to be used.
	result, err := m.Run(b.ctx, "sudo tee /root/.ssh/authorized_keys >/dev/null && systemctl is-system-running --wait",
		strings.NewReader(b.key.Authorized+"\n"))
	require.NoError(t, err)
	require.Equal(t, "running", strings.TrimSpace(result.Stdout), result.Stderr)
	n := &node{Machine: m, bench: b}
	n.root, err = n.login(b.ctx, "root", b.key, "22")
	require.NoError(t, err)
	t.Logf("%s is up after %s", id, time.Since(begin).Round(10*time.Millisecond))
	return n
}

// login opens a connection to the machine.
func (n *node) login(ctx context.Context, user string, key machine.Key, port string) (*ssh.Client, error) {
	address := net.JoinHostPort(n.Address().String(), port)
	conn, err := n.bench.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	transport, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key.Signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return ssh.NewClient(transport, channels, requests), nil
}

// try runs a shell script as root. The script travels through standard input, so
// that a script that looks for processes does not find itself.
func (n *node) try(t *testing.T, script string) machine.Result {
	t.Helper()
	session, err := n.root.NewSession()
	require.NoError(t, err, script)
	defer session.Close()
	var out, errs bytes.Buffer
	session.Stdin, session.Stdout, session.Stderr = strings.NewReader(script), &out, &errs
	err = session.Run("exec sh -seu")
	result := machine.Result{Stdout: out.String(), Stderr: errs.String()}
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		result.Code, err = exit.ExitStatus(), nil
	}
	require.NoError(t, err, script)
	return result
}

// sh runs a shell script as root that must succeed, and returns what it printed.
func (n *node) sh(t *testing.T, script string, args ...any) string {
	t.Helper()
	if len(args) > 0 {
		script = fmt.Sprintf(script, args...)
	}
	result := n.try(t, script)
	require.Zero(t, result.Code, "%s\n%s%s", script, result.Stdout, result.Stderr)
	return strings.TrimSpace(result.Stdout)
}

// lines is sh for a list.
func (n *node) lines(t *testing.T, script string, args ...any) []string {
	t.Helper()
	text := n.sh(t, script, args...)
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// ours are the processes that an agent is or starts.
const ours = `pgrep -al -f 'eksnode|apt-get|apt.methods|dpkg|curl|^sudo|gate' || true`

// agent is the process id of the running agent, empty without one.
func (n *node) agent(t *testing.T) string {
	t.Helper()
	return n.sh(t, "pgrep -x eksnode || true")
}

// leftBehind are files that no run may leave: the agent's folder and halves of
// files. What is asked for has no such names.
const leftBehind = `ls -d /tmp/* /var/tmp/* /opt/eksnode-* /root/eksnode-* /home/*/eksnode-* /usr/sbin/policy-rc.d 2>/dev/null | grep -v /systemd-private- || true
find / -xdev \( -path /proc -o -path /sys \) -prune -o \( -name '.*.eksnode-*' -o -name '.eksnode-*' \) -print`

// nothingLeft awaits that nothing of a run that has ended goes on.
func (n *node) nothingLeft(t *testing.T, within time.Duration) {
	t.Helper()
	running := ""
	begin := time.Now()
	if !assert.Eventually(t, func() bool { running = n.sh(t, ours); return running == "" }, within, tick) {
		t.Log(n.sh(t, "ps -eo pid,ppid,pgid,sid,stat,args --forest"))
		require.Fail(t, "processes of ours go on", running)
	}
	t.Logf("no process of ours runs after %s", time.Since(begin).Round(10*time.Millisecond))
	require.Empty(t, n.lines(t, leftBehind), "files of ours")
}

// replaced lets a file seem to have another content, until restore is called.
func (n *node) replaced(t *testing.T, name, content string) (restore func()) {
	t.Helper()
	n.sh(t, "echo '%s' > /run/replaced; mount --bind /run/replaced %s", content, name)
	return n.later(t, "umount "+name)
}

// later is a function that runs a script, once; at the test's end at the latest.
func (n *node) later(t *testing.T, script string) func() {
	t.Helper()
	once := sync.OnceFunc(func() { n.sh(t, script) })
	t.Cleanup(once)
	return once
}
