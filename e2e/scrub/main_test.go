//go:build e2e

package scrub_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/e2e/watch"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
)

func TestMain(m *testing.M) {
	watch.Become()
	os.Exit(m.Run())
}

func run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), lab.Eksnode(t), args...)
	out, _ := cmd.CombinedOutput() // the exit code has more detail than the error
	require.NotNil(t, cmd.ProcessState, "%s", out)
	return string(out), cmd.ProcessState.ExitCode()
}

// imageName is the only image on the machines, for sandboxes and pods.
const imageName = "registry.test/pause:1"

// pause prints its arguments and waits until it is killed.
func pause(t *testing.T) map[string]v1.Image {
	t.Helper()
	config := v1.Config{Entrypoint: []string{"/bin/sh", "-c", `echo "$@"; exec tail -f /dev/null`, "pause"}, Env: []string{"PATH=/bin"}}
	return map[string]v1.Image{imageName: lab.Image(t, config, lab.Busybox(t, "sh", "tail")...)}
}

// equip installs a node's programs: containerd and runc of Debian, a real
// kubelet, and the command; and an image in containerd. The snapshotter native
// is for machines whose own overlay cannot be a lower layer.
func equip(t *testing.T, n *lab.Node) {
	t.Helper()
	n.Sh(t, `export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -yq --no-install-recommends containerd runc >/dev/null
mkdir -p /etc/containerd /etc/kubernetes/manifests /var/log/journal
containerd config default | sed -e 's,sandbox_image = .*,sandbox_image = "`+imageName+`",' -e 's,SystemdCgroup = false,SystemdCgroup = true,' -e 's,restrict_oom_score_adj = false,restrict_oom_score_adj = true,' > /etc/containerd/config.toml
systemctl restart containerd`)
	kubelet, err := tools.Build(t.Context(), tools.NameKubelet, "", "amd64", t.Output())
	require.NoError(t, err)
	n.Upload(t, kubelet, "/usr/bin/kubelet")
	n.Upload(t, lab.Eksnode(t), "/usr/bin/eksnode")
	n.Import(t, "--snapshotter native", pause(t))
}

// dirty is a machine that joined a cluster by bootstrap.sh and was used. It has
// at least one file for each kind of change that a scrub makes.
func dirty(t *testing.T) map[string]string {
	t.Helper()
	content := map[string]string{}
	for _, template := range templates.All() {
		content[template.Path] = string(template.Content)
	}
	fill := strings.NewReplacer("MASTER_ENDPOINT", "https://a.gr7.us-east-1.eks.amazonaws.com", "CLUSTER_NAME", "old", "AWS_REGION", "us-east-1",
		"SANDBOX_IMAGE", "602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/pause:3.10")
	// The manifest lists the kubeconfig and the containerd template; a user edited
	// the kubelet's configuration.
	m := manifest.Manifest{}
	for _, path := range []string{templates.Kubeconfig, templates.ContainerdConfig, templates.KubeletConfig} {
		m.Templates = append(m.Templates, manifest.Template{Path: path, Mode: 0o600, Content: content[path], SHA256: manifest.Sum([]byte(content[path]))})
	}
	recorded, err := m.Encode()
	require.NoError(t, err)
	archive, err := txtar.ParseFile("testdata/dirty.txtar")
	require.NoError(t, err)
	files := map[string]string{
		manifest.Path[1:]:              string(recorded),
		templates.Kubeconfig[1:]:       fill.Replace(content[templates.Kubeconfig]),
		templates.ContainerdConfig[1:]: fill.Replace(content[templates.ContainerdConfig]) + "# mine\n",
		templates.KubeletConfig[1:]:    `{"kind":"KubeletConfiguration","maxPods":17,"registryPullQPS":7}`,
		"etc/containerd/config.toml":   fill.Replace(content[templates.ContainerdConfig]),
	}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
		if link := strings.TrimSpace(files[f.Name]); strings.HasPrefix(link, "-> ") {
			files[f.Name] = link
		}
	}
	for n := range 6 {
		files[fmt.Sprintf("var/lib/kubelet/pods/uid%d/volumes/new\nline/%d", n%2, n)] = "SECRET"
	}
	return files
}

// A scrub that was killed before any of its changes is completed by the next
// scrub, also when a template's new file was being written. The result equals
// that of an undisturbed scrub. A third run changes nothing.
func TestScrubKilledBeforeEachChangeIsCompleted(t *testing.T) {
	folder := t.TempDir()
	begin := func(name string) string {
		root := filepath.Join(folder, name)
		hosttest.Lay(t, root, dirty(t))
		for _, labelled := range []string{"etc/hosts", "etc/machine-id", "var/lib/kubelet/kubeconfig"} {
			require.NoError(t, unix.Setxattr(filepath.Join(root, labelled), "user.label", []byte("node"), 0))
		}
		return root
	}
	scrub := func(root string) []string {
		return []string{lab.Eksnode(t), "scrub", "--yes", "--audit", "off", "--root", root}
	}

	root := begin("whole")
	before := testkit.TreeOf(t, root)
	total, killed := runWatched(t, -1, scrub(root)...)
	require.False(t, killed)
	want := testkit.TreeOf(t, root)
	changed := want.Since(before)
	require.Greater(t, total, len(changed), "each change takes at least one call")
	said, code := run(t, "audit", "--skip-rules", "assets", "--root", root)
	require.Zero(t, code, said)
	t.Logf("a scrub makes %d calls that change files, and changes %d paths", total, len(changed))

	unfinished := 0
	for kill := 1; kill <= total; kill++ {
		root := begin("killed")
		_, killed := runWatched(t, kill, scrub(root)...)
		require.True(t, killed, "the scrub ended before its change %d", kill)
		if len(testkit.TreeOf(t, root).Since(want)) > 0 {
			unfinished++
		}
		_, killed = runWatched(t, -1, scrub(root)...)
		require.False(t, killed)
		require.Empty(t, testkit.TreeOf(t, root).Since(want), "killed before its change %d", kill)
		again, killed := runWatched(t, -1, scrub(root)...)
		require.False(t, killed)
		require.Zero(t, again, "a run after the completed one changes something")
		require.Empty(t, testkit.TreeOf(t, root).Since(want))
		require.NoError(t, os.RemoveAll(root))
	}
	assert.Equal(t, total, unfinished, "a scrub killed before its last change must leave something")
}

// runWatched runs a program and kills it right before its kill-th change of a
// file system, so that it made exactly kill-1 changes. If kill is larger than
// the number of changes, the program ends by itself. runWatched returns how
// many changes the program tried.
func runWatched(t *testing.T, kill int, args ...string) (changes int, killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	run, err := watch.Start(cmd, func(int) bool {
		if changes++; changes != kill {
			return true
		}
		killed = true
		assert.NoError(t, cmd.Process.Kill())
		return false
	})
	require.NoError(t, err)
	err = run.Wait()
	<-run.Gone()
	require.NoError(t, run.Err())
	if !killed {
		require.NoError(t, err, "%s", said.String())
	}
	return changes, killed
}

// limit bounds a test with machines; virtual machines are emulated.
const limit = 30 * time.Minute

// While containerd is stopped, its containers are visible but only containerd
// may remove them: the scrub keeps them, and both scrub and audit report
// findings. After containerd starts, the scrub removes the containers and keeps
// the image complete.
func TestScrubKeepsContainersOfStoppedContainerd(t *testing.T) {
	l := lab.Open(t, limit, machine.Nspawn)
	n := l.Start(t, machine.Config{Root: l.Root, InstanceID: "i-stopped"})
	equip(t, n)
	const metadata = "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"
	n.Sh(t, `ctr -n k8s.io containers create --snapshotter native --label io.cri-containerd.kind=container `+imageName+` old-container
ctr -n k8s.io leases create --id old-lease
ctr -n other containers ls
systemctl stop containerd`)
	before := n.Sh(t, "sha256sum "+metadata)

	result := n.Try(t, "eksnode scrub --yes --rules containers")
	assert.Equal(t, 1, result.Code, result.Stdout+result.Stderr)
	for _, want := range []string{
		"finding  container k8s.io/old-container  (containers: containerd does not run, and only containerd can remove this: start containerd on the machine and scrub again)",
		"finding  lease k8s.io/old-lease  (containers: ",
	} {
		assert.Contains(t, result.Stdout, want)
	}
	assert.Equal(t, before, n.Sh(t, "sha256sum "+metadata), "the scrub changed the metadata")
	result = n.Try(t, "eksnode audit --rules containers")
	assert.Equal(t, 1, result.Code, result.Stdout+result.Stderr)
	assert.Contains(t, result.Stdout, "container k8s.io/old-container")
	assert.Contains(t, result.Stdout, "FAIL: 2 findings by 1 rule of 1")

	n.Sh(t, "systemctl start containerd")
	result = n.Try(t, "eksnode scrub --yes --rules containers")
	require.Zero(t, result.Code, result.Stdout+result.Stderr)
	assert.Contains(t, result.Stdout, "DONE: 1 of 1 rule changed, 2 actions")
	assert.Contains(t, n.Sh(t, "ctr -n k8s.io images ls -q"), imageName)
	assert.Contains(t, n.Sh(t, "ctr -n k8s.io images check"), "complete (2/2)")
	assert.Empty(t, n.Sh(t, "ctr -n k8s.io containers ls -q; ctr -n k8s.io leases ls -q"))
	for _, containerd := range []string{"start", "stop"} {
		n.Sh(t, "systemctl "+containerd+" containerd")
		assert.Contains(t, n.Sh(t, "eksnode audit --rules containers"), "PASS: 1 rule, nothing left")
	}
}
