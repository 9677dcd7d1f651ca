//go:build e2e

package join_test

import (
	"context"
	"encoding/json"
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

// cluster is a control plane with the programs that a person uses with it.
type cluster struct {
	t       *testing.T
	ctx     context.Context
	plane   *join.Cluster
	eksnode string
}

// withPrograms starts a cluster without nodes, an AWS that knows it,
// and builds eksnode.
func withPrograms(t *testing.T) *cluster {
	t.Helper()
	ctx, plane := controlPlane(t, "my-cluster")
	w := aws.Sample(t)
	w.Clusters["my-cluster"]["accessConfig"] = map[string]any{"authenticationMode": "CONFIG_MAP"}
	clear(w.Entries)
	w.Serve()
	c := &cluster{t, ctx, plane, filepath.Join(t.TempDir(), "eksnode")}
	out, err := exec.CommandContext(ctx, "go", "build", "-o", c.eksnode, "../../cmd/eksnode").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return c
}

// prints is what eksnode prints.
func (c *cluster) prints(stdin string, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.ctx, c.eksnode, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(c.t, err, "%s", out)
	return string(out)
}

// auth is what eksnode prints for aws-auth.
func (c *cluster) auth(stdin, role string, more ...string) string {
	c.t.Helper()
	return c.prints(stdin, append([]string{"manifests", "--cluster", "my-cluster", "--role", role, "--only", "aws-auth"}, more...)...)
}

func (c *cluster) kubectl(stdin string, args ...string) string {
	c.t.Helper()
	said, err := c.plane.Kubectl(c.ctx, stdin, args...)
	require.NoError(c.t, err, said)
	return said
}

// now is aws-auth as kubectl prints it.
func (c *cluster) now() string {
	c.t.Helper()
	return c.kubectl("", "get", "configmap", "aws-auth", "-n", "kube-system", "-o", "yaml")
}

// data is the data of a ConfigMap.
func (c *cluster) data(name string) map[string]string {
	c.t.Helper()
	var m struct{ Data map[string]string }
	require.NoError(c.t, c.plane.Call(c.ctx, http.MethodGet, "/api/v1/namespaces/kube-system/configmaps/"+name, nil, &m))
	return m.Data
}

const nodeRole, otherRole = "arn:aws:iam::123456789012:role/node", "arn:aws:iam::123456789012:role/other"

// What `eksnode manifests` prints for kubectl goes into a real API server as it
// is printed, once and again, and what others have in aws-auth stays.
func TestManifestsAreApplied(t *testing.T) {
	c := withPrograms(t)
	assert.Contains(t, c.kubectl(c.auth("", otherRole), "apply", "--dry-run=server", "--validate=strict", "-f", "-"), "configmap/aws-auth created (server dry run)")
	assert.Contains(t, c.kubectl(c.auth("", otherRole), "apply", "--validate=strict", "-f", "-"), "configmap/aws-auth created")
	merged := c.auth(c.now(), nodeRole, "--aws-auth", "-")
	assert.Contains(t, merged, "# + - rolearn: "+nodeRole)
	assert.Contains(t, c.kubectl(merged, "apply", "--validate=strict", "-f", "-"), "configmap/aws-auth configured")
	assert.Contains(t, c.data("aws-auth")["mapRoles"], otherRole, "what was there stays")

	// It changed since it was printed: kubectl is refused, and nothing is lost.
	c.kubectl("", "annotate", "configmap", "aws-auth", "-n", "kube-system", "a=b")
	said, err := c.plane.Kubectl(c.ctx, merged, "apply", "-f", "-")
	require.Error(t, err)
	assert.Contains(t, said, "the object has been modified")
	assert.True(t, strings.HasPrefix(c.auth(c.now(), nodeRole, "--aws-auth", "-"), "# Nothing changes.\n"))
	assert.Contains(t, c.prints(c.now(), "preflight", "--cluster", "my-cluster", "--instance", "i-1", "--aws-auth", "-"), "OK       aws-auth ")
}

// Whatever a person pipes what is printed into, the mappings of others stay, byte
// for byte: made by hand, by kubectl create and by kubectl apply.
func TestMappingsOfOthersStay(t *testing.T) {
	c := withPrograms(t)
	others := map[string]string{
		"mapRoles":    "# by hand\n- rolearn: " + otherRole + "\n  username:   \"x\"\n  groups: ['system:masters']\n",
		"mapUsers":    "- {userarn: arn:aws:iam::123456789012:user/boss, username: boss} # \t \n\n",
		"mapAccounts": `["123456789012"]`, "mine": " a \n",
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": "aws-auth", "namespace": "kube-system"}, "data": others,
	})
	require.NoError(t, err)
	for _, maker := range []string{"create", "apply"} {
		c.kubectl(string(text), maker, "-f", "-")
		for _, pipe := range [][]string{
			{"apply"}, {"create"}, {"replace"}, {"apply", "--server-side"}, {"apply", "--server-side", "--force-conflicts"}, {"apply", "--overwrite"},
		} {
			said, err := c.plane.Kubectl(c.ctx, c.auth("", nodeRole), append(pipe, "-f", "-")...)
			require.Error(t, err, "%s: %s", pipe, said)
			assert.Equal(t, others, c.data("aws-auth"), "%s after %s", pipe, maker)
		}
		c.kubectl(c.auth(c.now(), nodeRole, "--aws-auth", "-"), "apply", "--validate=strict", "-f", "-")
		merged := c.data("aws-auth")
		assert.Equal(t, others["mapRoles"]+"- rolearn: "+nodeRole+"\n  username: system:node:{{EC2PrivateDNSName}}\n  groups:\n    - system:bootstrappers\n    - system:nodes\n", merged["mapRoles"])
		merged["mapRoles"] = others["mapRoles"]
		assert.Equal(t, others, merged)
		c.kubectl("", "delete", "configmap", "aws-auth", "-n", "kube-system")
	}
}

// The VPC CNI's ConfigMap gets its key whether it is there or not, and keeps
// those that were applied before.
func TestTheVPCCNIKeepsItsSettings(t *testing.T) {
	c := withPrograms(t)
	script := c.prints("", "manifests", "--cluster", "my-cluster", "--role", nodeRole, "--only", "vpc-cni", "--windows")
	shell := func() {
		t.Helper()
		said, err := c.plane.Shell(c.ctx, script)
		require.NoError(t, err, said)
	}
	shell()
	assert.Equal(t, map[string]string{"enable-windows-ipam": "true"}, c.data("amazon-vpc-cni"))
	c.kubectl("", "delete", "configmap", "amazon-vpc-cni", "-n", "kube-system")
	c.kubectl(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"amazon-vpc-cni","namespace":"kube-system"},"data":{"warm-ip-target":"3"}}`, "apply", "-f", "-")
	shell()
	shell()
	assert.Equal(t, map[string]string{"enable-windows-ipam": "true", "warm-ip-target": "3"}, c.data("amazon-vpc-cni"))
}
