//go:build e2e

package node_test

import (
	"regexp"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// TestScrubIsSafe interrupts a scrub, and scrubs machines with foreign mounts:
// inside the kubelet folder, and as the kubelet folder itself.
func TestScrubIsSafe(t *testing.T) {
	t.Parallel()
	b := open(t)
	n := b.start(t, "i-mounted")
	n.Sh(t, `mkdir /mnt/keep; mount -t tmpfs tmpfs /mnt/keep; echo kept > /mnt/keep/file; mkdir "/mnt/keep/a folder"`)
	state := `for kubelet in /var/lib/kubelet; do
mkdir -p "$kubelet/pods/0a1b/volumes/kubernetes.io~empty-dir/my data" "$kubelet/pods/0a1b/volumes/host-etc" $kubelet/pki
echo state > $kubelet/cpu_manager_state; echo key > $kubelet/pki/kubelet.key; echo plain > $kubelet/pods/0a1b/etc-hosts
mount --bind /mnt/keep "$kubelet/pods/0a1b/volumes/kubernetes.io~empty-dir/my data"
mount --bind /etc $kubelet/pods/0a1b/volumes/host-etc
mount -t tmpfs inner "$kubelet/pods/0a1b/volumes/kubernetes.io~empty-dir/my data/a folder"
done`

	// The next test must not reach into a mount that a failed scrub left.
	stages := []struct {
		name string
		test func(t *testing.T)
	}{
		{"Ctrl-C leaves a machine that its owner can log in to", func(t *testing.T) { testInterruptedScrub(t, b, n) }},
		{"a busy mount stops the scrub before its first change", func(t *testing.T) {
			n.Sh(t, state)
			n.Sh(t, `systemd-run -q --unit=busy -p "WorkingDirectory=/var/lib/kubelet/pods/0a1b/volumes/kubernetes.io~empty-dir/my data" sleep infinity`)
			n.Await(t, "the mount is busy", patience, "systemctl is-active --quiet busy")
			before := n.tree(t)
			r := b.build(t, n, account{}, "eksnode-scrub", "").fails(t, "kubelet-mounts: unmount /var/lib/kubelet/pods/0a1b/volumes/kubernetes.io~empty-dir/my data",
				"device or resource busy; stop what uses it: sleep (pid ")
			_, items := r.outcome(t)
			assert.Equal(t, plan.Failed, items["kubelet-mounts"])
			for _, item := range []string{"kubelet-pki", "kubelet-pods", "machine-id", "journal", "authorized-keys"} {
				assert.Equal(t, plan.Skipped, items[item], item)
			}
			require.Empty(t, n.tree(t).Since(before))
			client, err := n.Login(b.Ctx, "admin")
			require.NoError(t, err, "the login keys were removed")
			require.NoError(t, client.Close())
			n.Sh(t, "systemctl stop busy")
		}},
		{"a scrub unmounts foreign mounts and keeps their files", func(t *testing.T) {
			n.Sh(t, "mount -t tmpfs inner '/var/lib/kubelet/pods/0a1b/volumes/kubernetes.io~empty-dir/my data/a folder'")
			testMounted(t, b, n)
		}},
		{"a kubelet folder that is a link stays a link", func(t *testing.T) {
			n.readmit(t)
			n.Sh(t, "rm -r --one-file-system /var/lib/kubelet; mkdir -p /data/kubelet; ln -s /data/kubelet /var/lib/kubelet")
			n.Sh(t, state)
			testMounted(t, b, n)
			assert.Equal(t, "/data/kubelet", n.Sh(t, "readlink /var/lib/kubelet"))
			assert.Empty(t, n.Lines(t, "ls -A /data/kubelet/pods /data/kubelet/pki | grep -v : || true"))
		}},
		{"a kubelet folder that is a mount stays a mount", func(t *testing.T) {
			n.readmit(t)
			n.Sh(t, "rm /var/lib/kubelet; mkdir /var/lib/kubelet; mount -t tmpfs disk /var/lib/kubelet")
			n.Sh(t, state)
			testMounted(t, b, n)
			assert.Equal(t, "disk", n.Sh(t, "findmnt -n -o SOURCE --mountpoint /var/lib/kubelet"))
		}},
		{"a scrub stops services that write at their stop, except the VPN of the connection", func(t *testing.T) {
			n.readmit(t)
			n.Sh(t, agents)
			r := b.build(t, n, account{}, "eksnode-scrub", "").fails(t, "tailscaled.service", "the program writes its keys again when it stops", "a person has to decide")
			_, items := r.outcome(t)
			assert.Equal(t, plan.Done, items["agents-running"])
			assert.Equal(t, "inactive", n.Sh(t, "systemctl is-active fluent-bit || true"))
			assert.Equal(t, "active", n.Sh(t, "systemctl is-active tailscaled"))
			n.readmit(t)
			n.Sh(t, "systemctl stop tailscaled")
			b.build(t, n, account{}, "eksnode-scrub", noNode).succeeds(t)
			n.Sh(t, "test ! -e /var/fluent-bit/state/flb.db -a ! -e /var/lib/tailscale/tailscaled.state")
		}},
	}
	for _, stage := range stages {
		if !t.Run(stage.name, stage.test) {
			return
		}
	}
}

// noNode leaves out the rules for nodes, for machines with a node's state that
// were never provisioned.
const noNode = `skip_rules = ["not-a-node"]`

// agents are two services that write when they stop.
const agents = `mkdir -p /var/fluent-bit/state /var/lib/tailscale
for each in fluent-bit=/var/fluent-bit/state/flb.db tailscaled=/var/lib/tailscale/tailscaled.state; do
echo before > "${each#*=}"
printf '[Service]\nExecStart=/bin/sleep infinity\nExecStop=/bin/sh -c "echo after > %s"\n' "${each#*=}" > /run/systemd/system/${each%=*}.service
done
systemctl daemon-reload; systemctl start fluent-bit tailscaled`

// ownInEtc matches the paths that a scrub removes from /etc by rules for /etc.
var ownInEtc = regexp.MustCompile(`^/etc/(ssh/ssh_host_.*_key(\.pub)?|hostname|(passwd|shadow|group|gshadow|subuid|subgid)-|` +
	`netplan/50-cloud-init\.yaml|sudoers\.d/90-cloud-init-users)$`)

// testMounted scrubs and checks both sides of the mounts.
func testMounted(t *testing.T, b *bench, n *node) {
	t.Helper()
	etc := n.Lines(t, "find /etc -xdev")
	r := b.build(t, n, account{}, "eksnode-scrub", noNode).succeeds(t)
	_, items := r.outcome(t)
	assert.Equal(t, plan.Done, items["kubelet-mounts"])
	assert.Empty(t, n.Lines(t, "findmnt -rn -o TARGET | grep /kubelet/ || true"))
	assert.Equal(t, "kept", n.Sh(t, "cat /mnt/keep/file"))
	has := n.Lines(t, "find /etc -xdev")
	for _, name := range etc {
		if !slices.Contains(has, name) {
			assert.Regexp(t, ownInEtc, name, "the scrub changed files behind the mount of /etc")
		}
	}
	assert.Empty(t, n.Lines(t, "ls -A /var/lib/kubelet/pods /var/lib/kubelet/pki | grep -v : || true"))
	n.Sh(t, "test ! -e /var/lib/kubelet/cpu_manager_state -a ! -s /etc/machine-id -a ! -e /home/admin/.ssh/authorized_keys")
	n.nothingLeft(t)
}

// testInterruptedScrub stops a scrub that waits for a service to stop.
func testInterruptedScrub(t *testing.T, b *bench, n *node) {
	n.Sh(t, `mkfifo /run/gate; mkdir -p /run/systemd/system/cron.service.d
printf '[Service]\nTimeoutStopSec=infinity\nExecStop=/bin/sh -c ": > /run/gate-reached; cat /run/gate"\n' > /run/systemd/system/cron.service.d/gate.conf
systemctl daemon-reload`)
	before := n.tree(t)
	r := b.build(t, n, account{}, "eksnode-scrub", "")
	n.held(t)
	r.signal(t, syscall.SIGINT)
	r.fails(t, "interrupted")
	n.Await(t, "no agent runs", stopping, "! pgrep -x eksnode")
	n.Sh(t, openGate+"\nrm -r /run/systemd/system/cron.service.d; systemctl daemon-reload")
	n.nothingLeft(t)
	n.unchanged(t, before)
	client, err := n.Login(b.Ctx, "admin")
	require.NoError(t, err, "the login keys were removed")
	require.NoError(t, client.Close())
}

// readmit restores the builder's login after a scrub, as a boot would.
func (n *node) readmit(t *testing.T) {
	t.Helper()
	n.Sh(t, `ssh-keygen -A >/dev/null
echo '%s' > /home/admin/.ssh/authorized_keys
echo 'admin ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/90-cloud-init-users`, n.bench.Key.Authorized)
}
