package lab

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// Node is a machine on which scripts run as root.
type Node struct {
	*machine.Machine
	ctx  context.Context
	root *ssh.Client
}

// KeepRoot opens a root session that all later scripts use. They then depend
// neither on sudo nor on accounts, keys and new logins. The session ends with
// the machine, and can be opened again after a boot.
func (n *Node) KeepRoot(t *testing.T, key machine.Key) {
	t.Helper()
	n.root = nil
	// cloud-init adds the key for root too, with a command that refuses the login.
	n.Sh(t, "echo '%s' > /root/.ssh/authorized_keys", key.Authorized)
	client, err := n.Login(n.ctx, "root")
	require.NoError(t, err)
	n.root = client
}

func (n *Node) run(script string, args ...any) (machine.Result, error) {
	if len(args) > 0 {
		script = fmt.Sprintf(script, args...)
	}
	if n.root != nil {
		return machine.RunOver(n.ctx, n.root, "exec sh -seu", strings.NewReader(script))
	}
	return n.Run(n.ctx, "sudo sh -seu", strings.NewReader(script))
}

// Try runs a shell script as root, and also returns its exit code. The script
// is passed on standard input, so that a script that looks for processes does
// not find itself.
func (n *Node) Try(t *testing.T, script string, args ...any) machine.Result {
	t.Helper()
	result, err := n.run(script, args...)
	require.NoError(t, err, script)
	return result
}

// Sh runs a shell script as root that must succeed, and returns its output.
func (n *Node) Sh(t *testing.T, script string, args ...any) string {
	t.Helper()
	result := n.Try(t, script, args...)
	require.Zero(t, result.Code, "%s\n%s%s", script, result.Stdout, result.Stderr)
	return strings.TrimSpace(result.Stdout)
}

// Lines runs a script like Sh and returns the lines of its output.
func (n *Node) Lines(t *testing.T, script string, args ...any) []string {
	t.Helper()
	text := n.Sh(t, script, args...)
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// Await runs a script until it succeeds, and returns its output. On failure the
// test's log has the machine's journal.
func (n *Node) Await(t *testing.T, what string, within time.Duration, script string, args ...any) string {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeoutCause(n.ctx, within, fmt.Errorf("not within %s: %s", within, what))
	defer cancel()
	var result machine.Result
	err := machine.PollEvery(ctx, 500*time.Millisecond, func() (err error) {
		if result, err = n.run(script, args...); err == nil && result.Code != 0 {
			err = fmt.Errorf("exit code %d: %s%s", result.Code, result.Stdout, result.Stderr)
		}
		return err
	})
	if err != nil {
		said, _ := n.run("systemctl list-jobs; systemctl --failed; journalctl --no-pager -b -u 'eksnode-*' -u kubelet -u containerd | tail -60; cat /var/log/cloud-init-output.log")
		t.Log(said.Stdout)
	}
	require.NoError(t, err)
	t.Logf("%s: %s, after %s", n.InstanceID(), what, time.Since(begin).Round(10*time.Millisecond))
	return strings.TrimSpace(result.Stdout)
}

// Upload copies a program or another file to the machine.
func (n *Node) Upload(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	result, err := n.Run(n.ctx, "sudo sh -c 'cat > "+to+" && chmod 755 "+to+"'", in)
	require.NoError(t, err)
	require.Zero(t, result.Code, result.Stderr)
}

// CaptureTo powers the machine off, captures its disk and ends it.
func (n *Node) CaptureTo(t *testing.T, image string) {
	t.Helper()
	require.NoError(t, n.PowerOff(n.ctx))
	require.NoError(t, n.Capture(n.ctx, image))
	assert.NoError(t, n.Close())
}
