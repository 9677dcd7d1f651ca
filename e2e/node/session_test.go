//go:build e2e

package node_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
)

// TestSessions runs the agent through every supported kind of session, and
// breaks every kind of connection on a machine that waits in its first step.
func TestSessions(t *testing.T) {
	t.Parallel()
	b := open(t)
	n := b.start(t, "i-session")
	for _, c := range []struct {
		name        string
		fault, undo string
		as          account
		field       string
		prints      string
	}{
		{name: "as root", as: account{user: "root"}},
		{name: "from a remote folder, with noexec on the temporary one", fault: "mount -t tmpfs -o noexec,mode=1777 tmpfs /tmp", undo: "umount /tmp",
			field: `remote_folder = "/var/tmp"`},
		{name: "as root from a remote folder that only root may write", as: account{user: "root"},
			fault: "mount -t tmpfs -o noexec,mode=1777 tmpfs /tmp", undo: "umount /tmp", field: `remote_folder = "/opt"`},
		{name: "with a sudo that uses a terminal and lectures",
			fault: "printf 'Defaults use_pty\\nDefaults lecture=always\\n' > /etc/sudoers.d/99-test", undo: "rm /etc/sudoers.d/99-test"},
		{name: "with a login shell that is noisy and slow",
			fault: "cp /home/admin/.bashrc /run/bashrc; printf '%s' '" + noisy + "' > /run/noisy; cat /run/noisy /run/bashrc > /home/admin/.bashrc",
			undo:  "cp /run/bashrc /home/admin/.bashrc"},
		{name: "with another login shell", fault: "chsh -s /bin/sh admin", undo: "chsh -s /bin/bash admin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n.faulty(t, c.fault, c.undo)
			before := n.tree(t)
			r := b.provisionAs(t, n, c.as, b.mirror.URL(), c.field, "dry_run = true").succeeds(t)
			assert.Contains(t, r.out.String(), "; nothing was changed")
			assert.Contains(t, r.out.String(), "manifest: would write "+manifest.Path)
			n.unchanged(t, before)
			n.nothingLeft(t)
		})
	}

	for _, c := range []struct {
		name        string
		fault, undo string
		cut         func(t *testing.T, r *run)
		words       []string
	}{
		{name: "Ctrl-C", cut: func(t *testing.T, r *run) { r.signal(t, syscall.SIGINT) }, words: []string{"Cleanly cancelled builds after being interrupted"}},
		{name: "Ctrl-C under a sudo that uses a terminal",
			fault: "echo 'Defaults use_pty' > /etc/sudoers.d/99-test", undo: "rm /etc/sudoers.d/99-test",
			cut: func(t *testing.T, r *run) { r.signal(t, syscall.SIGINT) }, words: []string{"Cleanly cancelled builds after being interrupted"}},
		{name: "the machine ends the session", cut: func(t *testing.T, _ *run) { n.Sh(t, "kill -9 $(pgrep -u admin sshd)") },
			words: []string{"the connection to the machine was lost", "what it had done is finished by the next run"}},
		{name: "the machine ends the session under a sudo that uses a terminal",
			fault: "echo 'Defaults use_pty' > /etc/sudoers.d/99-test", undo: "rm /etc/sudoers.d/99-test",
			cut:   func(t *testing.T, _ *run) { n.Sh(t, "kill -9 $(pgrep -u admin sshd)") },
			words: []string{"the connection to the machine was lost", "what it had done is finished by the next run"}},
	} {
		t.Run("cut: "+c.name, func(t *testing.T) {
			n.faulty(t, c.fault, c.undo)
			before := n.tree(t)
			n.Sh(t, holdLists)
			defer n.Sh(t, openGate)
			r := b.provision(t, n, b.mirror.URL())
			n.held(t)
			require.Contains(t, n.Sh(t, ours), "apt-get update")
			c.cut(t, r)
			r.fails(t, c.words...)
			n.nothingLeft(t)
			n.Sh(t, openGate)
			require.Empty(t, except(n.tree(t).Since(before), bookkeeping))
		})
	}
	testPowerLoss(t, b, n)
}

// noisy is a slow start-up file that prints on both streams, also without an
// end of line.
const noisy = `echo "Welcome to the machine"; echo "{\"quota\": 1}"; echo "quota exceeded" >&2
printf "no end of line"; seq 1 20000 | md5sum; for i in $(seq 1 300); do echo "line $i"; done
`

// testPowerLoss ends the machine under the agent: by a power failure, and by a
// shutdown.
func testPowerLoss(t *testing.T, b *bench, n *node) {
	t.Run("cut: the machine loses power", func(t *testing.T) {
		n.Sh(t, holdLists)
		r := b.provision(t, n, b.mirror.URL())
		n.held(t)
		require.NoError(t, n.Kill())
		r.fails(t, "the connection to the machine was lost", "is finished by the next run")
	})
	t.Run("the run after a power failure", func(t *testing.T) {
		require.NoError(t, n.Boot(b.Ctx))
		n.KeepRoot(t, b.Key)
		n.Sh(t, openGate)
		n.nothingLeft(t)
		b.provision(t, n, b.mirror.URL(), "dry_run = true").succeeds(t)
	})
	// sshd's sessions outlive the network when this machine shuts down, so packer
	// gets no notice of their end.
	t.Run("cut: the machine is shut down", func(t *testing.T) {
		n.Sh(t, holdLists)
		r := b.provision(t, n, b.mirror.URL())
		n.held(t)
		require.NoError(t, n.PowerOff(b.Ctx))
		r.fails(t, "the connection to the machine was lost", "is finished by the next run")
	})
}
