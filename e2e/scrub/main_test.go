//go:build e2e

package scrub_test

import (
	"os"
	"os/exec"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/e2e/watch"
)

func TestMain(m *testing.M) {
	watch.Become()
	os.Exit(m.Run())
}

// run runs the command and returns its output and its exit code.
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
	kubelet, err := tools.Kubelet(t.Context(), "", "amd64", t.Output())
	require.NoError(t, err)
	n.Upload(t, kubelet, "/usr/bin/kubelet")
	n.Upload(t, lab.Eksnode(t), "/usr/bin/eksnode")
	n.Import(t, "--snapshotter native", pause(t))
}
