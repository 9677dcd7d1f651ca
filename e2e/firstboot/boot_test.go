//go:build e2e

package firstboot_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
)

// TestFirstBoot boots instances from one image, each with other user data.
func TestFirstBoot(t *testing.T) {
	w := open(t, nil)
	first, second := w.cluster("first", "6443"), w.cluster("second", "6444")
	t.Run("instances", func(t *testing.T) {
		t.Run("NodeConfig", func(t *testing.T) { t.Parallel(); testNodeConfig(t, w, first, second) })
		t.Run("bootstrap.sh", func(t *testing.T) { t.Parallel(); testBootstrapScript(t, w, first, second) })
		t.Run("leftover-state", func(t *testing.T) { t.Parallel(); testLeftoverState(t, w, first, second) })
		t.Run("nothing", func(t *testing.T) { t.Parallel(); testNoUserData(t, w) })
	})
}

// nodeConfig returns a NodeConfig of a cluster; more is added to its spec.
func nodeConfig(c *cluster, more string) string {
	return fmt.Sprintf(`apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: %s, apiServerEndpoint: "%s", certificateAuthority: %s, cidr: 10.100.0.0/16}
%s`, c.name, c.endpoint, c.base64CA(), more)
}

// multipart returns user data of these parts, each with its content type first.
func multipart(parts ...string) []byte {
	text := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n"
	for _, p := range parts {
		text += "--//\nContent-Type: " + p + "\n"
	}
	return []byte(text + "--//--\n")
}

// looking is a user data script. It records the result of the config phase, and
// writes a NodeConfig for the run phase.
const looking = `text/x-shellscript; charset="us-ascii"

#!/bin/bash
{
  cat /etc/eks/kubelet/environment
  systemctl is-active kubelet containerd
} > /run/looked
cat > /etc/eks/nodeadm.d/script.yaml <<EOF
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec: {kubelet: {flags: [--node-labels=script=yes]}}
EOF
`

// generated returns the arguments that init gives every kubelet of this
// version.
func generated(n *node, more ...string) []string {
	return append(append([]string{
		"/usr/bin/kubelet", "--cloud-provider=external", "--config=/etc/kubernetes/kubelet/config.json",
	}, more...),
		"--hostname-override="+lab.NodeName(n.Address()),
		"--image-credential-provider-bin-dir=/etc/eks/image-credential-provider", "--image-credential-provider-config=/etc/eks/image-credential-provider/config.json",
		"--kubeconfig=/var/lib/kubelet/kubeconfig", "--node-ip="+n.Address().String(), "--runtime-cgroups=/runtime.slice/containerd.service",
	)
}

// scripted are the arguments that bootstrap.sh gives a kubelet before 1.35, in the
// order of kubelet.service: first boot's, KUBELET_ARGS, KUBELET_EXTRA_ARGS.
func scripted(n *node, extra ...string) []string {
	return append([]string{
		"/usr/bin/kubelet", "--config=/etc/kubernetes/kubelet/kubelet-config.json", "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
		"--image-credential-provider-bin-dir=/etc/eks/image-credential-provider", "--image-credential-provider-config=/etc/eks/image-credential-provider/config.json",
		"--kubeconfig=/var/lib/kubelet/kubeconfig", "--runtime-cgroups=/runtime.slice/containerd.service",
		"--node-ip=" + n.Address().String(), "--pod-infra-container-image=" + pauseImage(), "--v=2",
		"--hostname-override=" + lab.NodeName(n.Address()), "--cloud-provider=external",
	}, extra...)
}

const dropIns = "--config-dir=/etc/kubernetes/kubelet/config.json.d"

// kubeletArguments returns the arguments of the running kubelet.
func (n *node) kubeletArguments() []string {
	n.t.Helper()
	return strings.Split(n.sh(`tr '\0' '\n' </proc/$(systemctl show --property=MainPID --value kubelet)/cmdline`), "\n")
}

// booted waits until all boot units have succeeded.
func (n *node) booted() {
	n.t.Helper()
	n.await("the boot units are done", `test "$(systemctl is-active eksnode-network eksnode-config eksnode-run | uniq)" = active`)
}

// joining waits until the boot units are done and the kubelet has sent a token
// to its cluster.
func (n *node) joining(c *cluster) {
	n.t.Helper()
	n.booted()
	require.Eventually(n.t, func() bool { return c.askedBy(n) }, n.world.patience, tick, "the kubelet shows the cluster %s a token", c.name)
	assert.Empty(n.t, n.sh("systemctl --failed --plain --no-legend"))
}

// configuration lists every file that a first boot writes, with its times. The
// kubelet itself writes 99-kubelet.conf for logind.
func (n *node) configuration() string {
	n.t.Helper()
	return n.sh(`find /etc/kubernetes /etc/eks /etc/containerd /etc/systemd /var/lib/kubelet/kubeconfig /etc/hosts -type f ! -name 99-kubelet.conf -printf '%p %s %T@\n' | sort
systemctl is-enabled kubelet containerd || true`)
}

// running returns the process ids of the services.
func (n *node) running() string {
	n.t.Helper()
	return n.sh("systemctl show --property=Id,MainPID kubelet containerd")
}

// again runs a command that must find nothing to do.
func (n *node) again(command string) {
	n.t.Helper()
	files, services := n.configuration(), n.running()
	said := n.sh(command + " 2>&1")
	for line := range strings.Lines(said) {
		assert.Regexp(n.t, `: nothing to do\n?$|^warning: `, line)
	}
	assert.Equal(n.t, files, n.configuration())
	assert.Equal(n.t, services, n.running())
}

// reboots pushes the power button and boots the instance again.
func (n *node) reboots(c *cluster) {
	n.t.Helper()
	before := n.configuration()
	require.NoError(n.t, n.PowerOff(n.world.Ctx))
	c.forget(n)
	require.NoError(n.t, n.Boot(n.world.Ctx))
	n.joining(c)
	assert.Equal(n.t, before, n.configuration(), "another boot must not rewrite files")
}

func testNodeConfig(t *testing.T, w *world, first, second *cluster) {
	n := w.instance(t, "i-nodeconfig", multipart(
		"application/node.eks.aws\n\n"+nodeConfig(first, "  kubelet: {config: {maxPods: 42}, flags: [--node-labels=team=a]}\n"), looking,
	))
	n.joining(first)
	want := append(generated(n, dropIns), "--node-labels=team=a", "--node-labels=script=yes")
	assert.Equal(t, want, n.kubeletArguments())
	assert.Contains(t, n.sh("cat /etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf"), `"maxPods": 42`)
	assert.Contains(t, n.sh("cat /etc/kubernetes/kubelet/config.json"), `"providerID": "aws:///eu-west-1a/i-nodeconfig"`)
	assert.Equal(t, string(first.ca), n.sh("cat /etc/kubernetes/pki/ca.crt")+"\n")
	looked := n.sh("cat /run/looked")
	assert.Contains(t, looked, "--node-labels=team=a\ninactive\ninactive", "the config phase must run before user data scripts and start no service")
	assert.Equal(t, "disabled\ndisabled", n.sh("systemctl is-enabled kubelet containerd || true"), "each boot starts the services itself; they are not enabled")
	assert.Contains(t, n.sh("ctr -n k8s.io images list -q"), pauseImage())
	found := n.Try(t, "eksnode diagnose")
	assert.Equal(t, 1, found.Code)
	assert.Contains(t, found.Stdout, "nauthorized")

	n.again("eksnode init --config-source imds://user-data --config-source file:///etc/eks/nodeadm.d/")
	n.sh("systemctl restart eksnode-network")
	assert.Contains(t, n.sh("cat /run/udev/rules.d/05-eksnode-secondary.rules"), `ATTR{address}!="02:ec:0a:4d:`, "eksnode-network must succeed when the metadata service responds")

	containerd := n.sh("systemctl show --property=MainPID containerd")
	assert.Equal(t, "PLAN: 0 actions; nothing was changed", n.sh("nodeadm init --dry-run -c imds://user-data -c file:///etc/eks/nodeadm.d/"))
	n.metadata.Set(func(s *imdstest.Settings) { s.Entries["user-data"] = nodeConfig(second, "") })
	files, services := n.configuration(), n.running()
	planned := n.sh("eksnode init --dry-run")
	for _, line := range []string{"stop     kubelet.service", "remove   /var/lib/kubelet/", "write    /etc/kubernetes/pki/ca.crt", "restart kubelet.service"} {
		assert.Contains(t, planned, line)
	}
	assert.Equal(t, files, n.configuration())
	assert.Equal(t, services, n.running())
	n.sh("rm /etc/eks/nodeadm.d/script.yaml; nodeadm init")
	n.joining(second)
	assert.Equal(t, generated(n), n.kubeletArguments(), "state of the first cluster is left")
	assert.Equal(t, string(second.ca), n.sh("cat /etc/kubernetes/pki/ca.crt")+"\n")
	assert.NotContains(t, n.sh("cat /etc/kubernetes/kubelet/config.json; ls /etc/kubernetes/kubelet/config.json.d || true"), "42")
	assert.Equal(t, containerd, n.sh("systemctl show --property=MainPID containerd"), "an unchanged service must keep running")
	n.reboots(second)
}

func testBootstrapScript(t *testing.T, w *world, first, second *cluster) {
	call := func(c *cluster, more string) string {
		return fmt.Sprintf("/etc/eks/bootstrap.sh %s --apiserver-endpoint %s --b64-cluster-ca %s --dns-cluster-ip 10.100.0.10 %s", c.name, c.endpoint, c.base64CA(), more)
	}
	const arguments = "--kubelet-extra-args '--node-labels=kind=script,team=a --v=3' --use-max-pods false"
	n := w.instance(t, "i-script", []byte("#!/bin/bash -xe\n"+call(first, arguments)+"\n"))
	n.joining(first)
	want := scripted(n, "--node-labels=kind=script,team=a", "--v=3")
	assert.Equal(t, want, n.kubeletArguments())
	assert.NotContains(t, n.sh("cat /etc/kubernetes/kubelet/kubelet-config.json"), "maxPods")
	assert.Equal(t, "enabled\nenabled", n.sh("systemctl is-enabled kubelet containerd"), "a reboot needs enabled services, because cloud-init does not call the script again")
	n.again(call(first, arguments))
	n.reboots(first)
	assert.Equal(t, want, n.kubeletArguments())
	assert.Contains(t, n.sh("journalctl --boot --unit=eksnode-config --output=cat"), "nothing to do: ", "the kubelet has what it needs")

	n.sh(call(second, ""))
	n.joining(second)
	assert.Equal(t, scripted(n), n.kubeletArguments())
	assert.Contains(t, n.sh("cat /etc/kubernetes/kubelet/kubelet-config.json"), `"maxPods": 29`)
}

// The instance of a builder machine has no user data for a node: nothing
// starts, nothing fails.
func testNoUserData(t *testing.T, w *world) {
	n := w.instance(t, "i-nothing", nil)
	n.booted()
	assert.Equal(t, "running", n.sh("systemctl is-system-running --wait || true"))
	assert.Equal(t, "inactive\ninactive", n.sh("systemctl is-active kubelet containerd || true"))
	assert.Contains(t, n.sh("journalctl --boot --unit=eksnode-run --output=cat"), "nothing to do: ")
	assert.Contains(t, n.sh("cat /var/lib/kubelet/kubeconfig"), "MASTER_ENDPOINT")
}
