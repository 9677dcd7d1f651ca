//go:build e2e

package node_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// node is a machine that eksnode turns into a node, with a root session that
// stays open.
type node struct {
	*lab.Node
	bench *bench
}

// start boots a machine from the base system.
func (b *bench) start(t *testing.T, id string) *node {
	t.Helper()
	n := &node{b.Start(t, machine.Config{Root: b.Root, InstanceID: id, ReadyWithin: patience}), b}
	n.KeepRoot(t, b.Key)
	require.Equal(t, "running", n.Sh(t, "systemctl is-system-running --wait"))
	return n
}

// ours matches the processes of an agent and its children.
const ours = `pgrep -al -f 'eksnode|apt-get|apt.methods|dpkg|curl|^sudo|gate'`

// agent returns the process id of the running agent, empty without one.
func (n *node) agent(t *testing.T) string {
	t.Helper()
	return n.Sh(t, "pgrep -x eksnode || true")
}

// leftBehind matches files that no run may leave: the agent's folder and
// partial files. Installed files have no such names.
const leftBehind = `ls -d /tmp/* /var/tmp/* /opt/eksnode-* /root/eksnode-* /home/*/eksnode-* /usr/sbin/policy-rc.d 2>/dev/null | grep -v /systemd-private- || true
find / -xdev \( -path /proc -o -path /sys \) -prune -o \( -name '.*.eksnode-*' -o -name '.eksnode-*' \) -print`

// nothingLeft waits until no process of an ended run remains.
func (n *node) nothingLeft(t *testing.T) {
	t.Helper()
	n.Await(t, "no process of the agent runs", stopping, "! "+ours)
	require.Empty(t, n.Lines(t, leftBehind), "files of the agent")
}

// faulty runs a script that makes the machine faulty. Another script undoes the
// fault when the test ends. Both may be empty.
func (n *node) faulty(t *testing.T, fault, undo string) {
	t.Helper()
	if fault != "" {
		n.Sh(t, fault)
		n.later(t, undo)
	}
}

// replaced makes a file appear with other content, until restore is called.
func (n *node) replaced(t *testing.T, name, content string) (restore func()) {
	t.Helper()
	n.Sh(t, "echo '%s' > /run/replaced; mount --bind /run/replaced %s", content, name)
	return n.later(t, "umount "+name)
}

// later returns a function that runs a script once, at the latest when the test
// ends.
func (n *node) later(t *testing.T, script string) func() {
	t.Helper()
	once := sync.OnceFunc(func() { n.Sh(t, script) })
	t.Cleanup(once)
	return once
}
