//go:build linux

package bootstrap

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// live runs a test of a live machine inside its own root. The body cannot use
// variables of the test outside.
func live(t *testing.T, body func(t *testing.T, h *host.Host, w *world)) {
	t.Helper()
	if os.Getenv(inside) == "" {
		inMachine(t, machineFolder(t, "1.34.4", "2.1.4"), t.Name())
		return
	}
	h := hosttest.Live(t)
	body(t, h, surround(t, imdstest.Typical()))
}

// calls returns the program calls since the last call of this function, without
// read-only queries.
func calls(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(callsFile)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	require.NoError(t, os.Remove(callsFile))
	var list []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "systemctl show") && !strings.Contains(line, "images list") && !strings.Contains(line, "images check") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

func apply(t *testing.T, h *host.Host, w *world, n *node.Node, pick Selection) {
	t.Helper()
	require.NoError(t, try(t, h, w, n, pick))
}

func try(t *testing.T, h *host.Host, w *world, n *node.Node, pick Selection) error {
	t.Helper()
	items, err := w.Items(n, pick)
	require.NoError(t, err)
	_, err = w.Apply(t.Context(), h, items)
	return err
}

func (w *world) node(t *testing.T, h *host.Host, name, spec string) *node.Node {
	t.Helper()
	n, err := w.FromNodeConfig(t.Context(), h, config(t, name, spec), "")
	require.NoError(t, err)
	return n
}

const (
	image = "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5"
	pull  = "ctr --namespace k8s.io images pull --label io.cri-containerd.pinned=pinned --hosts-dir /run/eksnode/registries " + image
)

func TestNodeConfigStartsTheServices(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		apply(t, h, w, w.node(t, h, "a", ""), Selection{})
		assert.Equal(t, []string{
			"systemctl start containerd.service", "systemctl start kubelet.service", "ecr-credential-provider", pull,
		}, calls(t))
		assert.False(t, there(t, h, "/run/eksnode/registries"), "credentials must not stay")

		before := tree(t, h, "/etc", "/run", "/var")
		apply(t, h, w, w.node(t, h, "a", ""), Selection{})
		assert.Empty(t, calls(t), "the same input restarts nothing")
		assert.Equal(t, before, tree(t, h, "/etc", "/run", "/var"))
	})
}

func TestPhasesRunOneAfterTheOther(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		n := w.node(t, h, "a", "")
		apply(t, h, w, n, Selection{Skip: []Phase{Run}})
		assert.Empty(t, calls(t), "the config phase starts nothing")
		apply(t, h, w, n, Selection{Skip: []Phase{Config}})
		assert.Equal(t, []string{"systemctl start containerd.service", "systemctl start kubelet.service", "ecr-credential-provider", pull}, calls(t))
	})
}

func TestOnlyServicesWithChangedFilesRestart(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		apply(t, h, w, w.node(t, h, "a", ""), Selection{})
		calls(t)
		apply(t, h, w, w.node(t, h, "a", "  kubelet: {flags: [--v=4]}\n"), Selection{})
		assert.Equal(t, []string{"systemctl restart kubelet.service"}, calls(t))
		apply(t, h, w, w.node(t, h, "a", "  kubelet: {flags: [--v=4]}\n  containerd: {config: \"[debug]\\nlevel = 'debug'\\n\"}\n"), Selection{})
		assert.Equal(t, []string{"containerd --config /etc/containerd/config.toml config dump", "systemctl restart containerd.service"}, calls(t))
		apply(t, h, w, w.node(t, h, "a", "  kubelet: {flags: [--v=4]}\n  containerd: {config: \"[debug]\\nlevel = 'debug'\\n\"}\n  instance: {environment: {kubelet: {A: b}}}\n"), Selection{})
		assert.Equal(t, []string{"systemctl daemon-reload", "systemctl restart kubelet.service"}, calls(t))
		apply(t, h, w, w.node(t, h, "a", "  kubelet: {flags: [--v=4]}\n  containerd: {config: \"[debug]\\nlevel = 'debug'\\n\"}\n  instance: {network: {nameservers: [10.0.0.2]}}\n"), Selection{})
		assert.Equal(t, []string{"systemctl daemon-reload", "systemctl restart systemd-resolved.service", "systemctl restart kubelet.service"}, calls(t))
	})
}

// The image was captured from a joined node. Its kubelet is enabled and runs as a node
// of the old cluster.
func TestRunningKubeletOfCapturedNodeIsReplaced(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		n, err := w.called(t, h, given("a")...)
		require.NoError(t, err)
		apply(t, h, w, n, Selection{})
		assert.Equal(t, []string{
			"systemctl daemon-reload", "systemctl enable containerd.service", "systemctl start containerd.service",
			"systemctl enable kubelet.service", "systemctl start kubelet.service", "ecr-credential-provider", pull,
		}, calls(t), "bootstrap.sh runs once, so systemd starts the services after a reboot")
		require.NoError(t, h.Files.WriteFile("/var/lib/kubelet/pki/kubelet-client-current.pem", []byte("a"), host.Attributes{Mode: 0o600}))

		apply(t, h, w, w.node(t, h, "b", ""), Selection{})
		assert.Equal(t, []string{"systemctl stop kubelet.service", "systemctl daemon-reload", "systemctl restart containerd.service", "systemctl disable kubelet.service", "systemctl start kubelet.service"}, calls(t))
		assert.False(t, there(t, h, "/var/lib/kubelet/pki"))
	})
}

// Amazon Linux 2's script enabled the kubelet of the captured node, which already runs.
func TestUnitsOfCapturedNodeAreRemoved(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		lay(t, h, map[string]string{argsDropIn: argsText, shadow: amazonText, ownUnit: ownText, sandbox: sandboxText})
		require.NoError(t, os.WriteFile(unitFolder+"/sandbox-image.service.active", []byte("failed"), 0o644))
		for _, state := range []string{"active", "enabled"} {
			require.NoError(t, os.WriteFile(unitFolder+"/kubelet.service."+state, []byte("active"), 0o644))
		}
		n := w.node(t, h, "a", "")
		apply(t, h, w, n, Selection{Skip: []Phase{Run}})
		assert.Equal(t, []string{"systemctl stop kubelet.service", "systemctl reset-failed sandbox-image.service", "systemctl daemon-reload"}, calls(t))
		apply(t, h, w, n, Selection{Skip: []Phase{Config}})
		assert.Contains(t, calls(t), "systemctl disable kubelet.service")
	})
}

func TestServiceStartedByAnotherProgramRestarts(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		require.NoError(t, os.WriteFile(unitFolder+"/containerd.service.active", []byte("active"), 0o644))
		require.NoError(t, os.WriteFile(unitFolder+"/kubelet.service.active", []byte("activating"), 0o644))
		apply(t, h, w, w.node(t, h, "a", ""), Selection{})
		assert.Equal(t, []string{"systemctl restart containerd.service", "systemctl restart kubelet.service"}, calls(t)[:2])
	})
}

func TestSelectedDaemonStartsAlone(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		apply(t, h, w, w.node(t, h, "a", ""), Selection{Daemons: []string{"kubelet"}})
		assert.Equal(t, []string{"systemctl start kubelet.service"}, calls(t))
	})
}

func TestMissingUnitIsNamed(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		require.NoError(t, os.WriteFile(unitFolder+"/containerd.service.missing", []byte("x"), 0o644))
		err := try(t, h, w, w.node(t, h, "a", ""), Selection{Skip: []Phase{Config}})
		assert.ErrorContains(t, err, "services: starting containerd.service: systemd reports the unit as not-found; build the image with this unit")
	})
}

func TestNextRunRetriesAFailedStart(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		require.NoError(t, os.WriteFile(failFile, []byte("start kubelet"), 0o644))
		err := try(t, h, w, w.node(t, h, "a", ""), Selection{})
		assert.ErrorContains(t, err, "services: run systemctl start kubelet.service: systemctl start kubelet.service: exit status 1: this call must fail")
		calls(t)
		require.NoError(t, os.Remove(failFile))
		apply(t, h, w, w.node(t, h, "a", ""), Selection{})
		assert.Equal(t, "systemctl start kubelet.service", calls(t)[0])
	})
}

// containerd itself reads a configuration with a user's part before a start, and only then.
func TestAWrongContainerdConfigurationIsNamed(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		require.NoError(t, os.WriteFile(failFile, []byte("config dump"), 0o644))
		err := try(t, h, w, w.node(t, h, "a", "  containerd: {config: \"[debug]\\nlevel = 'debug'\\n\"}\n"),
			Selection{})
		require.ErrorContains(t, err, "checking containerd's configuration; spec.containerd.config or the template has a mistake: ")
		apply(t, h, w, w.node(t, h, "a", ""), Selection{})
	})
}

// The pause image from the archive is in containerd before the kubelet starts. A failed
// import does not keep the kubelet from starting.
func TestMissingPauseImageIsImported(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		pins(t, h)
		n := w.node(t, h, "a", "")
		apply(t, h, w, n, Selection{})
		assert.Equal(t, []string{
			"systemctl start containerd.service",
			"ctr --namespace k8s.io images import /etc/eks/pause.tar",
			"ctr --namespace k8s.io images label localhost/kubernetes/pause:latest io.cri-containerd.pinned=pinned",
			"systemctl start kubelet.service",
		}, calls(t))

		require.NoError(t, os.Remove(imageList))
		require.NoError(t, os.Remove(unitFolder+"/kubelet.service.active"))
		require.NoError(t, os.WriteFile(failFile, []byte("images import"), 0o644))
		err := try(t, h, w, n, Selection{})
		assert.ErrorContains(t, err, "pause-image: run import /etc/eks/pause.tar")
		assert.Contains(t, calls(t), "systemctl start kubelet.service")
	})
}

// The SOCI snapshotter has the pause image before the kubelet starts, from the archive
// or from the registry (amazon-eks-ami #2717).
func TestPauseImageIsUnpackedForSOCI(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		n := w.node(t, h, "a", "")
		n.Containerd.SOCI = true
		apply(t, h, w, n, Selection{})
		assert.Equal(t, []string{
			"systemctl daemon-reload", "systemctl start soci-snapshotter.service", "systemctl start containerd.service",
			"systemctl start kubelet.service", "ecr-credential-provider",
			strings.Replace(pull, "pull", "pull --local --snapshotter soci", 1),
		}, calls(t))

		pins(t, h)
		n.Containerd.PauseImage = ownPause
		apply(t, h, w, n, Selection{})
		assert.Equal(t, []string{
			"systemctl restart containerd.service",
			"ctr --namespace k8s.io images import --local --snapshotter soci --discard-unpacked-layers=false /etc/eks/pause.tar",
			"ctr --namespace k8s.io images label localhost/kubernetes/pause:latest io.cri-containerd.pinned=pinned",
		}, calls(t))
		assert.Contains(t, testkit.Content(t, render.SOCIOrder), "\nAfter=soci-snapshotter.service\n")

		n.Containerd.SOCI = false
		apply(t, h, w, n, Selection{})
		assert.NoFileExists(t, render.SOCIOrder)
	})
}

// An image's own program sets up the instance store, once in each boot, with the
// arguments of Amazon's nodeadm.
func TestOwnProgramSetsUpTheInstanceStore(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		require.NoError(t, os.Symlink("/usr/bin/program", "/usr/bin/setup-local-disks"))
		n := w.node(t, h, "a", "  instance: {localStorage: {strategy: RAID0, mountPath: /mnt/x, disabledMounts: [SOCI, PodLogs]}}\n")
		const call = "setup-local-disks raid0 --dir /mnt/x --no-bind-soci --no-bind-pods-logs"
		apply(t, h, w, n, Selection{Daemons: []string{""}})
		assert.Contains(t, calls(t), call)
		apply(t, h, w, n, Selection{Daemons: []string{""}})
		assert.NotContains(t, calls(t), call)
	})
}

func TestFailedPullNamesTheRemedy(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		require.NoError(t, os.WriteFile(failFile, []byte("images pull"), 0o644))
		p := pause{w.node(t, h, "a", ""), 1}
		_, err := w.Apply(t.Context(), h, []plan.Item{p})
		assert.ErrorContains(t, err, "pulling the pause image, 8 attempts: ctr --namespace k8s.io images pull")
		assert.ErrorContains(t, err, "the node's role needs AmazonEC2ContainerRegistryPullOnly, and the node a route to the registry")
		assert.False(t, there(t, h, "/run/eksnode/registries"), "credentials must not stay")
	})
}

func TestBPFFileSystemIsMounted(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		require.NoError(t, os.MkdirAll("/sys/fs/bpf", 0o755))
		answer, err := bpf{}.Plan(t.Context(), h)
		require.NoError(t, err)
		require.Len(t, answer.Actions, 1)
		require.NoError(t, answer.Actions[0].Do(t.Context(), nil))
		assert.Equal(t, []string{"mount -t bpf bpf /sys/fs/bpf"}, calls(t))
	})
}
