package provisioner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func TestRefusedSteps(t *testing.T) {
	d := distroOf(t, "debian")
	_, err := Steps(Spec{}, d, Inputs{Arch: "amd64"})
	require.EqualError(t, err, `kubernetes_version is missing; set a complete version, such as 1.36.3`)
	_, err = Steps(Spec{KubernetesVersion: "1.34.4"}, d, Inputs{Arch: "386"})
	require.EqualError(t, err, `the architecture "386" is not supported; EKS nodes are amd64 (x86_64) or arm64 (aarch64)`)
}

func TestEachStepIsAPhase(t *testing.T) {
	d := distroOf(t, "debian")
	items, err := Steps(Spec{KubernetesVersion: "1.34.4"}, d, Inputs{Arch: "amd64"})
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, i := range items {
		assert.Equal(t, i.ID(), i.Phase())
		assert.False(t, seen[i.ID()], i.ID())
		seen[i.ID()] = true
	}
	assert.Equal(t, "requirements", items[0].ID())
	assert.Equal(t, "manifest", items[len(items)-1].ID())
}

func TestRequirements(t *testing.T) {
	good := facts{systemd: true, proc: true, arch: "amd64", places: []place{{path: "/usr/bin", needs: 10 << 20, Space: host.Space{FreeBytes: 10 << 20}}}}
	tests := map[string]struct {
		change func(*facts)
		err    string
	}{
		"good": {func(*facts) {}, ""},
		"no systemd": {func(f *facts) { f.systemd = false },
			"this machine does not start with systemd (/sbin/init is missing or another program), but the kubelet needs systemd; choose a base image with systemd, or install it (on Debian the package systemd-sysv)"},
		"not root": {func(f *facts) { f.uid = 1000 },
			"eksnode runs as user 1000, but only root can provision; let the communicator's user use sudo without a password"},
		"another architecture": {func(f *facts) { f.arch = "arm64" },
			"this machine is arm64, but the image is for amd64; choose a base image and an instance type of that architecture"},
		"read-only": {func(f *facts) { f.places[0].ReadOnly = true },
			"/usr/bin is on a read-only file system; remount it for writing, or choose a base image whose root can be written"},
		"a full disk": {func(f *facts) { f.places[0].FreeBytes = 3 << 20 },
			"/usr/bin has 3.1 MB free and needs 10.5 MB; give the machine a larger disk"},
		"all at once": {func(f *facts) { f.systemd, f.uid = false, 7 },
			"this machine does not start with systemd (/sbin/init is missing or another program), but the kubelet needs systemd; choose a base image with systemd, or install it (on Debian the package systemd-sysv)\n" +
				"eksnode runs as user 7, but only root can provision; let the communicator's user use sudo without a password"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := good
			f.places = append([]place(nil), good.places...)
			test.change(&f)
			err := nodeOf(t, "debian", Spec{}).judge(f)
			if test.err == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, test.err)
		})
	}
}

// TestRequirementsOfTheLiveMachine runs on a machine that systemd did not start: an
// offline root.
func TestRequirementsOfTheLiveMachine(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		require.True(t, h.Offline())
		require.NoError(t, os.RemoveAll("/sbin/init"))
		image := "registry.test/team/app:1@sha256:" + strings.Repeat("0", 64)
		n := nodeOf(t, "debian", Spec{Containers: Containers{Images: []string{image}}})
		_, err := n.requirements(t.Context(), h)
		require.ErrorContains(t, err, "this machine does not start with systemd")
		require.ErrorContains(t, err, "images and pause_image need a running containerd, which an offline root does not have")
		require.NoError(t, os.Symlink("/usr/lib/systemd/systemd", "/sbin/init"))
		f, err := nodeOf(t, "debian", Spec{}).ask(t.Context(), h)
		require.NoError(t, err)
		assert.True(t, f.systemd)
		assert.Zero(t, f.uid)
		for _, p := range f.places {
			assert.NotZero(t, p.FreeBytes, p.path)
		}
	})
}

// A dry run of an image root that starts with another program fails as the provision does.
func TestRequirementsOfAnImageRoot(t *testing.T) {
	n := nodeOf(t, "debian", Spec{})
	_, err := n.requirements(t.Context(), hosttest.Root(t, map[string]string{"sbin/init": "sysvinit"}))
	require.ErrorContains(t, err, "this machine does not start with systemd")
	h := hosttest.Root(t, map[string]string{"sbin/telinit": ""})
	_, err = n.requirements(t.Context(), h)
	require.NoError(t, err, "the first program may be missing yet")
	require.NoError(t, os.Symlink("/usr/lib/systemd/systemd", filepath.Join(h.Root(), "sbin/init")))
	_, err = n.requirements(t.Context(), h)
	require.NoError(t, err)
}

func TestSysctlFile(t *testing.T) {
	n := nodeOf(t, "debian", Spec{Sysctls: map[string]string{"vm.swappiness": " 30 ", "net.ipv4.conf.eth0/100.rp_filter": "2"}})
	assert.Equal(t, `# Kernel settings that the kubelet, kube-proxy and the VPC CNI need.
fs.inotify.max_user_instances = 8192
fs.inotify.max_user_watches = 524288
kernel.panic = 10
kernel.panic_on_oops = 1
net.bridge.bridge-nf-call-ip6tables = 1
net.bridge.bridge-nf-call-iptables = 1
net.ipv4.conf.eth0/100.rp_filter = 2
net.ipv4.ip_forward = 1
net.ipv4.ip_local_reserved_ports = 2703,9808-9809,10249-10250,10256,61678-61679
vm.overcommit_memory = 1
vm.swappiness = 30
`, string(n.sysctlFile().Content))
	assert.Equal(t, "/proc/sys/net/ipv4/conf/eth0.100/rp_filter", sysctlPath("net.ipv4.conf.eth0/100.rp_filter"))
}

// TestSetSysctl changes nothing: the kernel belongs to the machine that runs the
// tests.
func TestSetSysctl(t *testing.T) {
	h := hosttest.Live(t)
	require.ErrorContains(t, setSysctl(h, "net.ipv4.ip_default_ttl", "banana"), "the kernel refuses this value: ")
	require.NoError(t, setSysctl(h, "net.no.such", "1"), "another kernel may have it")
	ttl := content(t, h, "/proc/sys/net/ipv4/ip_default_ttl")
	require.NoError(t, setSysctl(h, "net.ipv4.ip_default_ttl", strings.TrimSpace(ttl)))
}

// The builder machine keeps its kernel settings: 5128 huge pages take 10 GiB, and a
// kernel that may load no module cannot until a restart.
func TestTheBuilderMachineKeepsItsKernelsSettings(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		n := nodeOf(t, "debian", Spec{EFA: true, Sysctls: map[string]string{"vm.min_free_kbytes": "2147483647", "kernel.yama.ptrace_scope": "3", "user.max_user_namespaces": "0"}})
		require.NoError(t, os.RemoveAll("/run/systemd/container"))
		require.NoError(t, unix.Mount("tmpfs", "/proc/sys", "tmpfs", 0, "")) // it replaces the kernel's settings
		for name := range n.allSysctls() {
			testkit.Write(t, sysctlPath(name), "untouched")
		}
		require.NoError(t, settle(t, h, pick(n, "sysctls")...))
		for name := range n.allSysctls() {
			text := testkit.Content(t, sysctlPath(name))
			if !strings.HasPrefix(name, "net.") {
				assert.Equal(t, "untouched", text, name)
			}
		}
		file := content(t, h, "/etc/sysctl.d/99-zz-eksnode.conf")
		assert.Contains(t, file, "\nvm.nr_hugepages = 5128\n", "the node has them from its next boot on")
	})
}

// Network settings are tried in a separate network namespace.
func TestTheBuilderMachineKeepsItsNetworksSettings(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		require.NoError(t, os.RemoveAll("/run/systemd/container"))
		const ttl = "/proc/sys/net/ipv4/ip_default_ttl"
		before := testkit.Content(t, ttl)
		require.NoError(t, inOwnNetwork(func() error { return setSysctl(h, "net.ipv4.ip_default_ttl", "77") }))
		n := nodeOf(t, "debian", Spec{Sysctls: map[string]string{"net.ipv4.ip_default_ttl": "78"}})
		require.NoError(t, n.trySysctls(h))
		assert.Equal(t, before, testkit.Content(t, ttl))
		n.spec.Sysctls["net.ipv4.ip_default_ttl"] = "banana"
		require.ErrorContains(t, n.trySysctls(h), "setting net.ipv4.ip_default_ttl = banana: the kernel refuses this value: ")
	})
}

func TestWithoutSwap(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"none":    {"UUID=1 / ext4 defaults 0 1\n", "UUID=1 / ext4 defaults 0 1\n"},
		"empty":   {"", ""},
		"one":     {"UUID=1 / ext4 defaults 0 1\n/swap\tnone\tswap sw 0 0\n", "UUID=1 / ext4 defaults 0 1\n# no swap on a node: /swap\tnone\tswap sw 0 0\n"},
		"comment": {"# /swap none swap sw 0 0\n#/swap none swap\n", "# /swap none swap sw 0 0\n#/swap none swap\n"},
		"a name":  {"/dev/swap /swap ext4 defaults 0 0\n", "/dev/swap /swap ext4 defaults 0 0\n"},
		"no end":  {"/swap none swap", "# no swap on a node: /swap none swap"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, withoutSwap(test.text))
			assert.Equal(t, test.want, withoutSwap(withoutSwap(test.text)), "a second run changes nothing")
		})
	}
}

func TestTemplatesAreWritten(t *testing.T) {
	var paths []string
	for _, f := range nodeOf(t, "debian", Spec{}).templateFiles() {
		paths = append(paths, f.Path)
		if strings.HasSuffix(f.Path, ".json") {
			assert.True(t, json.Valid(f.Content), f.Path)
		}
	}
	assert.Equal(t, []string{templates.Kubeconfig, templates.KubeletConfig, templates.ContainerdConfig, "/etc/eks/image-credential-provider/config.json"}, paths)
}

func TestUnitsOfTheDistribution(t *testing.T) {
	n := nodeOf(t, "debian", Spec{})
	n.distro.CommandFolder, n.distro.UnitFolder = "/opt/bin", "/etc/systemd/system"
	files := n.stepFiles("units")
	assert.Equal(t, "/etc/systemd/system/kubelet.service", files[0].Path)
	assert.Contains(t, string(files[0].Content), "\nExecStart=/opt/bin/kubelet $NODEADM_KUBELET_ARGS $KUBELET_ARGS $KUBELET_EXTRA_ARGS\n")
	for _, f := range files {
		assert.NotContains(t, string(f.Content), "{")
	}
}

// pick returns steps of a node, by their IDs.
func pick(n *node, ids ...string) []plan.Item {
	return slices.DeleteFunc(n.steps(), func(i plan.Item) bool { return !slices.Contains(ids, i.ID()) })
}
