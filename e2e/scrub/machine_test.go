//go:build e2e

package scrub_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// limit bounds a test with machines: virtual ones are emulated.
const limit = 30 * time.Minute

// logWriter hands the harness's messages to the test's log.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(text []byte) (int, error) {
	w.t.Logf("%s", strings.TrimRight(string(text), "\n"))
	return len(text), nil
}

// lab is a lab with a key for its machines.
type lab struct {
	*machine.Lab
	ctx  context.Context
	root string // the base system
	key  machine.Key
}

func openLab(t *testing.T, kinds ...machine.Kind) *lab {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	l := &lab{ctx: ctx}
	var err error
	l.Lab, l.root, err = machine.Open(ctx, logWriter{t}, kinds...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	l.key, err = machine.NewKey("builder@eksnode.test")
	require.NoError(t, err)
	return l
}

// node is a machine in the lab.
type node struct {
	*machine.Machine
	lab *lab
}

func (l *lab) start(t *testing.T, config machine.Config) *node {
	t.Helper()
	begin := time.Now()
	config.AuthorizedKeys, config.Signer = []string{l.key.Authorized}, l.key.Signer
	m, err := l.Start(l.ctx, config)
	require.NoError(t, err)
	t.Logf("%s is up after %s", config.InstanceID, time.Since(begin).Round(time.Second))
	return &node{m, l}
}

// try runs a shell script as root.
func (n *node) try(t *testing.T, script string) machine.Result {
	t.Helper()
	begin := time.Now()
	result, err := n.Run(n.lab.ctx, "sudo sh -seu", strings.NewReader(script))
	require.NoError(t, err, script)
	line, _, _ := strings.Cut(strings.TrimSpace(script), "\n")
	t.Logf("%s: %.60q… took %s", n.InstanceID(), line, time.Since(begin).Round(100*time.Millisecond))
	return result
}

// sh runs a shell script as root that must succeed, and returns what it printed.
func (n *node) sh(t *testing.T, script string) string {
	t.Helper()
	result := n.try(t, script)
	require.Zero(t, result.Code, "%s\n%s%s", script, result.Stdout, result.Stderr)
	return strings.TrimSpace(result.Stdout)
}

// upload puts a program or file on the machine.
func (n *node) upload(t *testing.T, from io.Reader, to string) {
	t.Helper()
	result, err := n.Run(n.lab.ctx, "sudo sh -c 'cat > "+to+" && chmod 755 "+to+"'", from)
	require.NoError(t, err)
	require.Zero(t, result.Code, result.Stderr)
}

// equip installs what a node has: containerd and runc of Debian, a real
// kubelet, and the command; and an image in containerd.
func (n *node) equip(t *testing.T, snapshotter string) {
	t.Helper()
	n.sh(t, `export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -yq --no-install-recommends containerd runc >/dev/null
mkdir -p /etc/containerd /etc/kubernetes/manifests /var/log/journal
containerd config default | sed -e 's,sandbox_image = .*,sandbox_image = "`+imageName+`",' -e 's,SystemdCgroup = false,SystemdCgroup = true,' -e 's,restrict_oom_score_adj = false,restrict_oom_score_adj = true,' > /etc/containerd/config.toml
systemctl restart containerd`)
	kubelet, err := tools.Kubelet(n.lab.ctx, "", "amd64", logWriter{t})
	require.NoError(t, err)
	for to, path := range map[string]string{"/usr/bin/kubelet": kubelet, "/usr/bin/eksnode": eksnode(t)} {
		in, err := os.Open(path)
		require.NoError(t, err)
		n.upload(t, in, to)
		require.NoError(t, in.Close())
	}
	n.upload(t, bytes.NewReader(ociImage(t)), "/run/image.tar")
	n.sh(t, `ctr -n k8s.io images import --snapshotter `+snapshotter+` /run/image.tar
rm /run/image.tar
ctr -n k8s.io images ls -q`)
}
