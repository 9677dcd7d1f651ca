//go:build e2e

package node_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// joined leaves a machine with the state of a node in a cluster: the files that
// a bootstrap.sh and a kubelet write.
const joined = `
sed -i -e 's,MASTER_ENDPOINT,https://0123456789ABCDEF0123456789ABCDEF.gr7.eu-central-1.eks.amazonaws.com,' \
	-e 's,CLUSTER_NAME,old-cluster,' -e 's,AWS_REGION,eu-central-1,' /var/lib/kubelet/kubeconfig
python3 - <<'END'
import json
name = "/etc/kubernetes/kubelet/kubelet-config.json"
config = json.load(open(name))
config["clusterDNS"] = ["10.100.0.10"]
config["maxPods"] = 29
config["providerID"] = "aws:///eu-central-1a/i-0123456789abcdef0"
config["kubeReserved"] = {"cpu": "70m", "memory": "574Mi"}
json.dump(config, open(name, "w"), indent=2)
END
sed -i 's,SANDBOX_IMAGE,602401143452.dkr.ecr.eu-central-1.amazonaws.com/eks/pause:3.10,' /etc/eks/containerd/containerd-config.toml
cp /etc/eks/containerd/containerd-config.toml /etc/containerd/config.toml
echo CA > /etc/kubernetes/pki/ca.crt
mkdir -p /var/lib/kubelet/pki /var/lib/kubelet/pods/0a1b/volumes/kubernetes.io~projected/token /var/lib/kubelet/plugins_registry
echo CERT > /var/lib/kubelet/pki/kubelet-client-2026-11-20-10-00-00.pem
ln -s kubelet-client-2026-11-20-10-00-00.pem /var/lib/kubelet/pki/kubelet-client-current.pem
echo TOKEN > /var/lib/kubelet/pods/0a1b/volumes/kubernetes.io~projected/token/token
echo '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}' > /var/lib/kubelet/cpu_manager_state
echo '{"policyName":"None","machineState":{},"checksum":4047769151}' > /var/lib/kubelet/memory_manager_state
mkdir -p /etc/systemd/system/kubelet.service.d /var/lib/cni/networks/aws /var/log/pods/0a1b
echo '[Service]' > /etc/systemd/system/kubelet.service.d/10-kubelet-args.conf
echo 'Environment=KUBELET_EXTRA_ARGS=--node-labels=old=yes' | cat /etc/systemd/system/kubelet.service.d/10-kubelet-args.conf - > /etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf
echo '{}' > /etc/cni/net.d/10-aws.conflist
echo lease > /var/lib/cni/networks/aws/10.0.0.7
echo log > /var/log/pods/0a1b/0.log
echo NODE_IP=10.0.0.7 > /etc/eks/kubelet/environment
echo 'token: secret' > /root/.bash_history
systemctl daemon-reload
systemctl enable kubelet.service 2>/dev/null`

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
	t.Logf("eksnode audit: exit %d: %s", result.Code, lastLine(result.Stdout+result.Stderr))
	require.Equal(t, code, result.Code, result.Stdout+result.Stderr)
	return result.Stdout + result.Stderr
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
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
		t.Log(lastLine(strings.Split(r.out.String(), "\nBuild 'null.machine'")[0]))
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
