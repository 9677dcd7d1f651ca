//go:build e2e

package node_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stopping is how long an agent may take to stop: its commands get five seconds
// before they are killed.
const stopping = 30 * time.Second

// A gate stops a command of the agent at a certain point: the command reads
// from a pipe without a writer until the gate opens.
const (
	holdPackages = `mkfifo /run/gate; rm -f /run/gate-reached
cat > /run/gate.sh <<'END'
test -p /run/gate && grep -qs '^Status: install ok unpacked' /var/lib/dpkg/status || exit 0
: > /run/gate-reached
cat /run/gate
END
echo 'pre-invoke=sh /run/gate.sh' > /etc/dpkg/dpkg.cfg.d/gate`
	holdLists = `mkfifo /run/gate; rm -f /run/gate-reached
echo 'APT::Update::Pre-Invoke {": > /run/gate-reached; cat /run/gate"};' > /etc/apt/apt.conf.d/99gate`
	openGate = `if test -p /run/gate; then exec 3<>/run/gate; exec 3>&-; rm /run/gate; fi
rm -f /etc/dpkg/dpkg.cfg.d/gate /etc/apt/apt.conf.d/99gate`
)

// held waits until a run has reached the gate.
func (n *node) held(t *testing.T) {
	t.Helper()
	n.Await(t, "the gate is reached", patience, "test -e /run/gate-reached")
	require.NotEmpty(t, n.agent(t))
}

// fetching waits until the agent has written a part of the kubelet.
func (n *node) fetching(t *testing.T) {
	t.Helper()
	n.Await(t, "the kubelet is being fetched", patience,
		"ls -l /proc/$(pgrep -x eksnode)/fd | grep -q /usr/bin/.kubelet.eksnode- && find /usr/bin -name '.kubelet.eksnode-*' -size +1024 | grep -q .")
}

// testInterruptions interrupts a first provision at every stage. Each run
// continues from the state of the interrupted one.
func testInterruptions(t *testing.T, b *bench, n *node) {
	t.Run("Ctrl-C while packages are installed", func(t *testing.T) {
		n.Sh(t, holdPackages)
		r := b.provision(t, n, b.mirror.URL())
		n.held(t)
		require.Contains(t, n.Sh(t, ours), "apt-get")
		r.signal(t, syscall.SIGINT)
		r.fails(t, "interrupted")
		n.nothingLeft(t)
		assert.NotEmpty(t, n.Sh(t, "grep -c '^Status: install ok unpacked' /var/lib/dpkg/status"), "the run was not interrupted in the middle of the packages")
	})
	t.Run("agent killed while packages are installed", func(t *testing.T) {
		n.Sh(t, "rm -f /run/gate-reached")
		r := b.provision(t, n, b.mirror.URL())
		n.held(t)
		n.Sh(t, "kill -9 $(pgrep -x eksnode)")
		r.fails(t, "the agent was killed by signal 9 before it had finished")
		_, items := r.outcome(t)
		assert.NotContains(t, items, "packages")
		n.Sh(t, openGate)
	})
	t.Run("agent killed during a download", func(t *testing.T) {
		r := b.provision(t, n, b.slow.URL())
		n.fetching(t)
		n.Sh(t, "kill -9 $(pgrep -x eksnode)")
		r.fails(t, "the agent was killed by signal 9 before it had finished")
		report, items := r.outcome(t)
		assert.Equal(t, "failed", string(report.Result))
		assert.Equal(t, "done", string(items["packages"]), "partly installed packages of the killed runs are completed")
		assert.Len(t, n.Lines(t, "ls -A /usr/bin | grep '^.kubelet.eksnode'"), 1, "a partial file is left")
		assert.NotZero(t, n.Try(t, "test -e /usr/bin/kubelet").Code)
	})
	t.Run("Ctrl-C during a download", func(t *testing.T) {
		r := b.provision(t, n, b.slow.URL())
		n.fetching(t)
		r.signal(t, syscall.SIGINT)
		r.fails(t, "interrupted")
		n.nothingLeft(t)
		assert.NotZero(t, n.Try(t, "test -e /usr/bin/kubelet").Code)
	})
	t.Run("packer killed during a download", func(t *testing.T) {
		r := b.provision(t, n, b.slow.URL())
		n.fetching(t)
		r.signal(t, syscall.SIGKILL)
		n.nothingLeft(t)
	})
	t.Run("the next run finishes", func(t *testing.T) {
		r := b.provision(t, n, b.mirror.URL()).succeeds(t)
		_, items := r.outcome(t)
		assert.Equal(t, "unchanged", string(items["packages"]))
		assert.Equal(t, "done", string(items["kubelet"]))
		n.nothingLeft(t)
		assert.Empty(t, n.Lines(t, "dpkg --audit"))
		assert.Equal(t, "Kubernetes v"+kubelet, strings.TrimSpace(n.Sh(t, "kubelet --version")))
	})
}
