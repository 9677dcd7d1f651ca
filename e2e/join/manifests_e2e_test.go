//go:build e2e

package join_test

import (
	"context"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// controlPlane starts a cluster without nodes.
func controlPlane(t *testing.T, name string) (context.Context, *join.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	lab, _, err := machine.Open(ctx, logWriter{t}, machine.Node)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, lab.Close()) })
	paths := map[string]string{}
	for _, tool := range []string{tools.NameEtcd, tools.NameAPIServer, tools.NameControllerManager, tools.NameScheduler, tools.NameKubectl} {
		paths[tool], err = tools.Build(ctx, tool, "", runtime.GOARCH, logWriter{t})
		require.NoError(t, err)
	}
	folder := t.TempDir()
	etcd, err := join.StartEtcd(lab, paths[tools.NameEtcd], folder)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, etcd.Close()) })
	c, err := join.StartCluster(ctx, lab, join.ClusterConfig{
		Name: name, Role: "node", Address: netip.AddrFrom4([4]byte{10, 78, 0, 1}), Etcd: etcd, Identities: &join.Identities{}, Folder: folder, Log: logWriter{t},
		Programs: join.Programs{
			APIServer: paths[tools.NameAPIServer], ControllerManager: paths[tools.NameControllerManager],
			Scheduler: paths[tools.NameScheduler], Kubectl: paths[tools.NameKubectl],
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return ctx, c
}

// What `eksnode manifests` prints for kubectl goes into a real API server as it
// is printed, once and again, and what others have in aws-auth stays.
func TestManifestsAreApplied(t *testing.T) {
	ctx, c := controlPlane(t, "my-cluster")
	w := aws.Sample()
	w.Clusters["my-cluster"]["accessConfig"] = map[string]any{"authenticationMode": "CONFIG_MAP"}
	w.Entries = nil
	w.Serve(t)
	eksnode := filepath.Join(t.TempDir(), "eksnode")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", eksnode, "../../cmd/eksnode").CombinedOutput()
	require.NoError(t, err, "%s", out)
	prints := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, eksnode, args...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	kubectl := func(stdin string, args ...string) string {
		t.Helper()
		said, err := c.Kubectl(ctx, stdin, args...)
		require.NoError(t, err, said)
		return said
	}
	const role, other = "arn:aws:iam::123456789012:role/node", "arn:aws:iam::123456789012:role/other"
	auth := func(role string, more ...string) []string {
		return append([]string{"manifests", "--cluster", "my-cluster", "--role", role, "--only", "aws-auth"}, more...)
	}
	now := func() string { return kubectl("", "get", "configmap", "aws-auth", "-n", "kube-system", "-o", "yaml") }

	assert.Contains(t, kubectl(prints("", auth(other)...), "apply", "--dry-run=server", "--validate=strict", "-f", "-"), "configmap/aws-auth created (server dry run)")
	assert.Contains(t, kubectl(prints("", auth(other)...), "apply", "--validate=strict", "-f", "-"), "configmap/aws-auth created")
	merged := prints(now(), auth(role, "--aws-auth", "-")...)
	assert.Contains(t, merged, "# +     - rolearn: "+role)
	assert.Contains(t, kubectl(merged, "apply", "--validate=strict", "-f", "-"), "configmap/aws-auth configured")
	assert.Contains(t, now(), other, "what was there stays")

	// It changed since it was printed: kubectl is refused, and nothing is lost.
	kubectl("", "annotate", "configmap", "aws-auth", "-n", "kube-system", "a=b")
	said, err := c.Kubectl(ctx, merged, "apply", "-f", "-")
	require.Error(t, err)
	assert.Contains(t, said, "the object has been modified")
	assert.True(t, strings.HasPrefix(prints(now(), auth(role, "--aws-auth", "-")...), "# Nothing changes.\n"))
	assert.Contains(t, prints(now(), "preflight", "--cluster", "my-cluster", "--instance", "i-1", "--aws-auth", "-"), "OK       aws-auth ")

	cni := prints("", "manifests", "--cluster", "my-cluster", "--role", role, "--only", "vpc-cni", "--windows")
	assert.Contains(t, kubectl(cni, "apply", "--validate=strict", "-f", "-"), "configmap/amazon-vpc-cni created")
	var applied struct{ Data map[string]string }
	require.NoError(t, c.Call(ctx, http.MethodGet, "/api/v1/namespaces/kube-system/configmaps/amazon-vpc-cni", nil, &applied))
	assert.Equal(t, map[string]string{"enable-windows-ipam": "true"}, applied.Data)
}
