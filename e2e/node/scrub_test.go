//go:build e2e

package node_test

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// joined leaves a machine with the state of a node in a cluster: the files that
// a bootstrap.sh and a kubelet write.
//
//go:embed testdata/joined.sh
var joined string

// gone are the paths that joined creates and no image may have.
var gone = []string{
	"/etc/containerd/config.toml", "/etc/kubernetes/pki/ca.crt", "/var/lib/kubelet/pki/*", "/var/lib/kubelet/pods/*",
	"/var/lib/kubelet/*_manager_state", "/etc/systemd/system/kubelet.service.d/*.conf", "/etc/cni/net.d/*", "/var/lib/cni/*",
	"/var/log/pods/*", "/etc/eks/kubelet/environment", "/root/.bash_history", "/root/.ssh/authorized_keys", "/home/admin/.ssh/authorized_keys",
	"/etc/ssh/ssh_host_*", "/etc/systemd/system/*.wants/kubelet.service", "/var/lib/cloud/instance",
}

// audit runs the machine's own command in the open session.
func (n *node) audit(t *testing.T, code int, more string) string {
	t.Helper()
	result := n.Try(t, "eksnode audit "+more)
	t.Logf("eksnode audit: exit %d: %s", result.Code, testkit.LastLine(result.Stdout+result.Stderr))
	require.Equal(t, code, result.Code, result.Stdout+result.Stderr)
	return result.Stdout + result.Stderr
}

// testScrub scrubs a provisioned machine that has joined a cluster.
func testScrub(t *testing.T, b *bench, n *node) {
	m := n.manifest(t)
	n.Sh(t, joined)
	t.Run("an audit before the scrub lists each finding and exits with 1", func(t *testing.T) {
		before := n.tree(t)
		said := n.audit(t, 1, "")
		for _, words := range []string{
			"/var/lib/kubelet/kubeconfig", "kubelet-config.json", "/etc/containerd/config.toml", "/var/lib/kubelet/pki/kubelet-client-current.pem",
			"cpu_manager_state", "10-kubelet-args.conf", "10-aws.conflist", "/etc/machine-id", "/home/admin/.ssh/authorized_keys",
			"/etc/systemd/system/multi-user.target.wants/kubelet.service", "FAIL: ",
		} {
			assert.Contains(t, said, words)
		}
		n.unchanged(t, before)
	})
	t.Run("the provisioner eksnode-audit finds the same and changes nothing", func(t *testing.T) {
		before := n.tree(t)
		r := b.build(t, n, account{}, "eksnode-audit", "rules = [\"kubelet-kubeconfig\"]")
		r.fails(t, "/var/lib/kubelet/kubeconfig", "audit findings: a person has to decide", `skip_rules = ["kubelet-kubeconfig"]`)
		report, _ := r.outcome(t)
		assert.Equal(t, plan.Findings, report.Result)
		n.unchanged(t, before)
		b.build(t, n, account{}, "eksnode-audit", "rules = [\"iscsi-initiator\"]").succeeds(t)
	})
	t.Run("a scrub that is only planned changes nothing", func(t *testing.T) {
		before := n.tree(t)
		r := b.build(t, n, account{}, "eksnode-scrub", "dry_run = true").succeeds(t)
		assert.Contains(t, r.out.String(), "kubelet-kubeconfig: would restore /var/lib/kubelet/kubeconfig")
		assert.Contains(t, r.out.String(), "authorized-keys: would remove /home/admin/.ssh/authorized_keys")
		n.unchanged(t, before)
	})
	t.Run("an audit whose checks cannot run exits with 2", func(t *testing.T) { testUnknown(t, n) })
	t.Run("a scrub removes all state while a kubelet writes", func(t *testing.T) {
		n.Sh(t, "systemctl start --no-block kubelet.service")
		n.Await(t, "the kubelet writes its state", patience, "test -e /var/lib/kubelet/device-plugins -o -e /var/lib/kubelet/checkpoints")
		r := b.build(t, n, account{}, "eksnode-scrub", "").succeeds(t)
		report, _ := r.outcome(t)
		assert.Equal(t, plan.OK, report.Result)
		t.Log(testkit.LastLine(strings.Split(r.out.String(), "\nBuild 'null.machine'")[0]))
		n.nothingLeft(t)
	})
	t.Run("an audit after the scrub passes in the session that is still open", func(t *testing.T) {
		assert.Contains(t, n.audit(t, 0, ""), "PASS: ")
		assert.Empty(t, n.Lines(t, "ls -d %s 2>/dev/null || true", strings.Join(gone, " ")))
		assert.Equal(t, "disabled", n.Sh(t, "systemctl is-enabled kubelet.service || true"))
		assert.Equal(t, "inactive", n.Sh(t, "systemctl is-active kubelet.service || true"))
		assert.Equal(t, "0", n.Sh(t, "stat -c %s /etc/machine-id"))
	})
	t.Run("templates equal those that provisioning recorded, byte for byte", func(t *testing.T) {
		require.Len(t, m.Templates, 4)
		for _, template := range m.Templates {
			assert.Equal(t, template.SHA256, n.Sh(t, "sha256sum <%s | cut -d' ' -f1", template.Path), template.Path)
			assert.Equal(t, strings.TrimSpace(template.Content), n.Sh(t, "cat %s", template.Path))
		}
		after := n.manifest(t)
		assert.Equal(t, m, after)
	})
	t.Run("every login is refused", func(t *testing.T) { testLockedOut(t, n) })
}

// testUnknown makes single rules fail, and then the whole audit.
func testUnknown(t *testing.T, n *node) {
	restore := n.replaced(t, manifest.Path, "{")
	said := n.audit(t, 2, "")
	assert.Contains(t, said, "reading the image's manifest "+manifest.Path)
	assert.Contains(t, said, "UNKNOWN: ")
	restore()

	restore = n.replaced(t, "/usr/lib/os-release", "ID=plan9")
	assert.Contains(t, n.audit(t, 2, ""), `UNKNOWN: the distribution ID="plan9"`)
	restore()

	assert.Contains(t, n.audit(t, 2, "--rules nonsense"), `no rule, phase or group is named "nonsense"`)
}

// testLockedOut tries to log in, also with new host keys as after a boot. The
// missing user key must then be the reason of the refusal.
func testLockedOut(t *testing.T, n *node) {
	for range 2 {
		for _, user := range []string{"admin", "root"} {
			client, err := n.Login(n.bench.Ctx, user)
			if !assert.Error(t, err, user) {
				assert.NoError(t, client.Close())
			}
			t.Logf("%s: %v", user, err)
		}
		n.Sh(t, "ssh-keygen -A >/dev/null")
	}
}

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
			n.Sh(t, "systemctl list-jobs | grep -q late.service; test -z \"$(systemctl list-jobs | grep filebeat)\"; systemctl stop late")
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

// agents are two services that write when they stop, and one that a boot has not started yet.
//
//go:embed testdata/agents.sh
var agents string

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
