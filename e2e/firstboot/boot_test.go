//go:build e2e

package firstboot_test

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
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
//
//go:embed testdata/looking.mime
var looking string

// generated returns the arguments that init gives every kubelet of this
// version. The image's settings are in the folder of drop-ins.
func generated(n *node, more ...string) []string {
	return append([]string{
		"/usr/bin/kubelet", "--cloud-provider=external", "--config=/etc/kubernetes/kubelet/config.json",
		"--config-dir=/etc/kubernetes/kubelet/config.json.d",
		"--hostname-override=" + lab.NodeName(n.Address()),
		"--image-credential-provider-bin-dir=/etc/eks/image-credential-provider", "--image-credential-provider-config=/etc/eks/image-credential-provider/config.json",
		"--kubeconfig=/var/lib/kubelet/kubeconfig", "--node-ip=" + n.Address().String(),
		"--runtime-cgroups=/runtime.slice/containerd.service",
	}, more...)
}

// scripted are the arguments that bootstrap.sh gives a kubelet, in the
// order of kubelet.service: first boot's, KUBELET_ARGS, KUBELET_EXTRA_ARGS.
func scripted(n *node, extra ...string) []string {
	return append([]string{
		"/usr/bin/kubelet", "--config=/etc/kubernetes/kubelet/kubelet-config.json",
		"--config-dir=/etc/kubernetes/kubelet/config.json.d",
		"--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
		"--image-credential-provider-bin-dir=/etc/eks/image-credential-provider", "--image-credential-provider-config=/etc/eks/image-credential-provider/config.json",
		"--kubeconfig=/var/lib/kubelet/kubeconfig", "--runtime-cgroups=/runtime.slice/containerd.service",
		"--node-ip=" + n.Address().String(), "--v=2",
		"--hostname-override=" + lab.NodeName(n.Address()), "--cloud-provider=external",
	}, extra...)
}

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
	want := generated(n, "--node-labels=team=a", "--node-labels=script=yes")
	assert.Equal(t, want, n.kubeletArguments())
	assert.Contains(t, n.sh("cat /etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf"), `"maxPods": 42`)
	assert.Contains(t, n.sh("cat /etc/kubernetes/kubelet/config.json"), `"providerID": "aws:///eu-west-1a/i-nodeconfig"`)
	assert.Equal(t, string(first.ca), n.sh("cat /etc/kubernetes/pki/ca.crt")+"\n")
	looked := n.sh("cat /run/looked")
	assert.Contains(t, looked, "--node-labels=team=a\ninactive\ninactive", "the config phase must run before user data scripts and start no service")
	assert.Equal(t, "disabled\ndisabled", n.sh("systemctl is-enabled kubelet containerd || true"), "each boot starts the services itself; they are not enabled")
	assert.Contains(t, n.sh("ctr -n k8s.io images list -q"), lab.PauseImage())
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

// withNetworkManager makes a real NetworkManager manage the primary interface
// and all others.
//
//go:embed testdata/network-manager.sh
var withNetworkManager string

// TestNetworkManagerLeavesSecondaryInterfaces runs a real NetworkManager.
// Secondary interfaces appear before and after the boot hook. The interfaces of
// a container have the driver veth: the test replaces ENA's driver name by it,
// because there is no ENA hardware here. There is no udev in a container
// either; virtual machines test its part.
func TestNetworkManagerLeavesSecondaryInterfaces(t *testing.T) {
	w := openLab(t, machine.Nspawn)
	n := w.launch(t, machine.Config{Root: w.Root, InstanceID: "i-network-manager"})
	n.Upload(t, lab.Agent(t), "/home/admin/eksnode")
	mac := machine.MAC(n.Address()).String()
	primary := n.sh("grep -lx %s /sys/class/net/*/address | cut -d/ -f5", mac)
	n.sh(withNetworkManager, primary, mac, w.HostAddress())

	state := func(name string) string {
		return n.sh("nmcli --terse --fields DEVICE,STATE device | sed -n 's/^%s://p'", name)
	}
	plug := func(name string) {
		n.sh("ip link add %s type veth peer name peer-%s && ip link set %s up && ip link set peer-%s up", name, name, name, name)
		n.await("NetworkManager knows "+name, "nmcli --terse --fields DEVICE device | grep -x %s", name)
	}
	plug("eth7")
	assert.NotEqual(t, "unmanaged", state("eth7"), "without the boot hook NetworkManager manages the interface")

	n.sh("/home/admin/eksnode boot-hook")
	const file = "/run/NetworkManager/conf.d/05-eksnode-secondary.conf"
	n.sh(`grep -q 'driver:ena,' %[1]s && sed -i 's/driver:ena,/driver:veth,/' %[1]s && systemctl reload NetworkManager`, file)
	assert.Contains(t, n.sh("NetworkManager --print-config"), "match-device=driver:veth,", "NetworkManager reads the file")
	plug("eth8")
	n.await("NetworkManager leaves eth8 alone", "nmcli --terse --fields DEVICE,STATE device | grep -x eth8:unmanaged")
	assert.Empty(t, n.sh("ip -brief -4 address show dev eth8 | awk '{print $3}'"))
	n.sh("nmcli connection up primary")
	assert.Equal(t, "connected", state(primary), "the primary interface is identified by its address, because it has the same driver")
	// NetworkManager keeps an interface that it managed before the boot hook until
	// `nmcli device set` releases it by name. The hook does this for EC2's
	// interfaces.
	n.sh("nmcli device set eth7 managed no")
	n.sh("systemctl restart NetworkManager")
	n.await("NetworkManager keeps the primary interface after a restart", "nmcli --terse --fields DEVICE,STATE device | grep -x %s:connected", primary)
	n.await("NetworkManager leaves eth8 alone after a restart", "nmcli --terse --fields DEVICE,STATE device | grep -x eth8:unmanaged")
	n.await("NetworkManager leaves eth7 alone", "nmcli --terse --fields DEVICE,STATE device | grep -x eth7:unmanaged")
}

// cluster is a minimal API server, as a node sees an API server that does not
// know the node: it has a certificate, reads tokens, and returns Unauthorized.
type cluster struct {
	name, endpoint string
	ca             []byte

	mutex sync.Mutex
	asked map[string]bool // addresses of nodes that sent a token
}

func (w *world) cluster(name, port string) *cluster {
	t := w.t
	t.Helper()
	certificate, key := filepath.Join(t.TempDir(), "crt"), filepath.Join(t.TempDir(), "key")
	testkit.Run(t, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-subj", "/CN="+name, "-addext", "subjectAltName=IP:"+w.HostAddress(), "-keyout", key, "-out", certificate)
	c := &cluster{name: name, endpoint: "https://" + w.Port(port), ca: []byte(testkit.Content(t, certificate)), asked: map[string]bool{}}
	listener, err := w.Listen(w.Ctx, "tcp", w.Port(port))
	require.NoError(t, err)
	server := &http.Server{Handler: c}
	go func() { _ = server.ServeTLS(listener, certificate, key) }() // Serve returns ErrServerClosed
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	return c
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer k8s-aws-v1.") {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		c.mutex.Lock()
		c.asked[host] = true
		c.mutex.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`))
}

// askedBy reports whether a node has sent a token of AWS's form.
func (c *cluster) askedBy(n *node) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.asked[n.Address().String()]
}

// forget deletes the record of a node's token.
func (c *cluster) forget(n *node) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.asked, n.Address().String())
}

// base64CA returns the certificate authority in the form of both contracts.
func (c *cluster) base64CA() string { return base64.StdEncoding.EncodeToString(c.ca) }
