//go:build e2e

package node_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// node is a machine that eksnode makes a node of, with a session of root's that
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

// ours are the processes that an agent is or starts.
const ours = `pgrep -al -f 'eksnode|apt-get|apt.methods|dpkg|curl|^sudo|gate'`

// agent is the process id of the running agent, empty without one.
func (n *node) agent(t *testing.T) string {
	t.Helper()
	return n.Sh(t, "pgrep -x eksnode || true")
}

// leftBehind are files that no run may leave: the agent's folder and halves of
// files. What is asked for has no such names.
const leftBehind = `ls -d /tmp/* /var/tmp/* /opt/eksnode-* /root/eksnode-* /home/*/eksnode-* /usr/sbin/policy-rc.d 2>/dev/null | grep -v /systemd-private- || true
find / -xdev \( -path /proc -o -path /sys \) -prune -o \( -name '.*.eksnode-*' -o -name '.eksnode-*' \) -print`

// nothingLeft awaits that nothing of a run that has ended goes on.
func (n *node) nothingLeft(t *testing.T) {
	t.Helper()
	n.Await(t, "no process of ours runs", stopping, "! "+ours)
	require.Empty(t, n.Lines(t, leftBehind), "files of ours")
}

// faulty has a script make the machine faulty until the test ends, when another
// undoes it. Both may be empty.
func (n *node) faulty(t *testing.T, fault, undo string) {
	t.Helper()
	if fault != "" {
		n.Sh(t, fault)
		n.later(t, undo)
	}
}

// replaced lets a file seem to have another content, until restore is called.
func (n *node) replaced(t *testing.T, name, content string) (restore func()) {
	t.Helper()
	n.Sh(t, "echo '%s' > /run/replaced; mount --bind /run/replaced %s", content, name)
	return n.later(t, "umount "+name)
}

// later is a function that runs a script, once; at the test's end at the latest.
func (n *node) later(t *testing.T, script string) func() {
	t.Helper()
	once := sync.OnceFunc(func() { n.Sh(t, script) })
	t.Cleanup(once)
	return once
}
