//go:build linux

package bootstrap

import (
	"cmp"
	_ "embed"
	"fmt"
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
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
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
		if !strings.HasPrefix(line, "systemctl show") && !strings.Contains(line, "images list") &&
			!strings.Contains(line, "images check") {
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
	pull  = "ctr --namespace k8s.io images pull --label io.cri-containerd.pinned=pinned --hosts-dir " +
		"/run/eksnode/registries " + image
)

//go:embed testdata/runs.yaml
var runs []byte

// firstBoot is a first boot in testdata/runs.yaml.
type firstBoot struct {
	// Remove and Files are paths to remove and files to write before.
	Remove []string          `json:"remove"`
	Files  map[string]string `json:"files"`
	// Call has the arguments of bootstrap.sh. Without them, Cluster and Spec are those of a
	// NodeConfig.
	Call    string   `json:"call"`
	Cluster string   `json:"cluster"`
	Spec    string   `json:"spec"`
	Skip    []Phase  `json:"skip"`
	Daemons []string `json:"daemons"`
	// Error is a part of the error, Calls are the calls of programs, and Absent the paths
	// that are not there afterwards. Unchanged is set if no file changes, nor its time, and
	// every item had nothing to do.
	Error     string   `json:"error"`
	Calls     []string `json:"calls"`
	Absent    []string `json:"absent"`
	Unchanged bool     `json:"unchanged"`
}

func TestFirstBootsOneAfterTheOther(t *testing.T) {
	var cases map[string][]firstBoot
	_, err := strictjson.ReadYAML("runs.yaml", runs, &cases)
	require.NoError(t, err)
	for name, boots := range cases {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			live(t, func(t *testing.T, h *host.Host, w *world) {
				for i, b := range boots {
					b.check(t, h, w, fmt.Sprintf("boot %d", i+1))
				}
			})
		})
	}
}

func (b firstBoot) check(t *testing.T, h *host.Host, w *world, which string) {
	t.Helper()
	for _, name := range b.Remove {
		require.NoError(t, h.Files.RemoveAll(name))
	}
	lay(t, h, b.Files)
	var n *node.Node
	if args := strings.Fields(b.Call); len(args) > 0 {
		var err error
		n, err = w.called(t, h, given(args[0], args[1:]...)...)
		require.NoError(t, err)
	} else {
		n = w.node(t, h, cmp.Or(b.Cluster, "a"), "  "+strings.ReplaceAll(b.Spec, "\n", "\n  "))
	}
	before := tree(t, h, written...)
	w.log = nil
	err := try(t, h, w, n, Selection{Skip: b.Skip, Daemons: b.Daemons})
	if b.Error == "" {
		require.NoError(t, err, which)
	} else {
		require.ErrorContains(t, err, b.Error, which)
	}
	assert.Equal(t, strings.Join(b.Calls, "\n"), strings.Join(calls(t), "\n"), which)
	for _, name := range b.Absent {
		assert.False(t, there(t, h, name), "%s: %s", which, name)
	}
	if b.Unchanged {
		assert.Equal(t, before, tree(t, h, written...), which)
		for _, line := range w.log {
			assert.True(t, strings.HasSuffix(line, ": nothing to do"), line)
		}
	}
	assert.Empty(t, w.aws.asked, which)
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
		assert.Equal(t, []string{"systemctl stop kubelet.service", "systemctl reset-failed sandbox-image.service",
			"systemctl daemon-reload"}, calls(t))
		apply(t, h, w, n, Selection{Skip: []Phase{Config}})
		assert.Contains(t, calls(t), "systemctl disable kubelet.service")
	})
}

// The SOCI snapshotter has the pause image before the kubelet starts, from the archive
// or from the registry (amazon-eks-ami #2717). It goes with containerd, also if the
// daemons are selected.
func TestPauseImageIsUnpackedForSOCI(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		n := w.node(t, h, "a", "")
		n.Containerd.SOCI = true
		apply(t, h, w, n, Selection{Daemons: Daemons()})
		assert.FileExists(t, render.SOCIConfig)
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
			"ctr --namespace k8s.io images import --local --snapshotter soci --discard-unpacked-layers=false " +
				"/etc/eks/pause.tar",
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
		n := w.node(t, h, "a", "  instance: {localStorage: {strategy: RAID0, mountPath: /mnt/x, disabledMounts: "+
			"[SOCI, PodLogs]}}\n")
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
		assert.ErrorContains(t, err,
			"the node's role needs AmazonEC2ContainerRegistryPullOnly, and the node a route to the registry")
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
