//go:build e2e

package join_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// administrator is a person with kubectl, eksnode and a cluster without nodes.
type administrator struct {
	*cluster
	t *testing.T
}

// newAdministrator starts the cluster, and the AWS doubles that serve it.
func newAdministrator(t *testing.T) administrator {
	t.Helper()
	l := lab.Open(t, 10*time.Minute, machine.Node)
	programs, folder := fetch(t, controlPlane), t.TempDir()
	startEtcd(t, l, programs[tools.NameEtcd], folder)
	c := startCluster(t, l, 1, "my-cluster", programs, &join.Identities{}, folder)
	c.complete(t)
	w := aws.Sample(t)
	w.Clusters["my-cluster"]["accessConfig"] = map[string]any{"authenticationMode": "CONFIG_MAP"}
	clear(w.Entries)
	w.Alias("i-1", sampleInstance)
	w.Serve()
	return administrator{c, t}
}

// prints returns the output of eksnode.
func (c administrator) prints(stdin string, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.lab.Ctx, lab.Eksnode(c.t), args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(c.t, err, "%s", out)
	return string(out)
}

// auth returns eksnode's manifest for aws-auth.
func (c administrator) auth(stdin, role string, more ...string) string {
	c.t.Helper()
	return c.prints(stdin, append([]string{"manifests", "--cluster", "my-cluster", "--role", role, "--only", "aws-auth"}, more...)...)
}

// now returns aws-auth as kubectl prints it.
func (c administrator) now() string {
	c.t.Helper()
	return c.must(c.t, "", "get", "configmap", "aws-auth", "-n", "kube-system", "-o", "yaml")
}

func (c administrator) data(name string) map[string]string {
	c.t.Helper()
	out := c.must(c.t, "", "get", "configmap", name, "--namespace=kube-system", "--output=json")
	m := testkit.JSON[struct{ Data map[string]string }](c.t, out)
	return m.Data
}

const sampleInstance = "i-0123456789abcdef0"

const nodeRole, otherRole = "arn:aws:iam::123456789012:role/node", "arn:aws:iam::123456789012:role/other"

// A real API server accepts the output of `eksnode manifests` from kubectl,
// repeatedly. Other mappings in aws-auth stay.
func TestManifestsAreAppliedToAPIServer(t *testing.T) {
	c := newAdministrator(t)
	assert.Contains(t, c.must(c.t, c.auth("", otherRole), "apply", "--dry-run=server", "--validate=strict", "-f", "-"), "configmap/aws-auth created (server dry run)")
	assert.Contains(t, c.must(c.t, c.auth("", otherRole), "apply", "--validate=strict", "-f", "-"), "configmap/aws-auth created")
	merged := c.auth(c.now(), nodeRole, "--aws-auth", "-")
	assert.Contains(t, merged, "# + - rolearn: "+nodeRole)
	assert.Contains(t, c.must(c.t, merged, "apply", "--validate=strict", "-f", "-"), "configmap/aws-auth configured")
	assert.Contains(t, c.data("aws-auth")["mapRoles"], otherRole, "existing mappings stay")

	// aws-auth changed after the manifest was printed: the API server refuses it,
	// and no mapping is lost.
	c.must(c.t, "", "annotate", "configmap", "aws-auth", "-n", "kube-system", "a=b")
	_, err := c.kubectl(c.lab.Ctx, merged, "apply", "-f", "-")
	require.ErrorContains(t, err, "the object has been modified")
	assert.True(t, strings.HasPrefix(c.auth(c.now(), nodeRole, "--aws-auth", "-"), "# Nothing changes.\n"))
	assert.Contains(t, c.prints(c.now(), "preflight", "--cluster", "my-cluster", "--instance", sampleInstance, "--aws-auth", "-"), "OK       aws-auth ")
}

// Other mappings stay byte for byte with every way to apply the output: when
// they were made by hand, by kubectl create and by kubectl apply.
func TestOtherAuthMappingsStay(t *testing.T) {
	c := newAdministrator(t)
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
		c.must(c.t, string(text), maker, "-f", "-")
		for _, pipe := range [][]string{
			{"apply"}, {"create"}, {"replace"}, {"apply", "--server-side"}, {"apply", "--server-side", "--force-conflicts"}, {"apply", "--overwrite"},
		} {
			said, err := c.kubectl(c.lab.Ctx, c.auth("", nodeRole), append(pipe, "-f", "-")...)
			require.Error(t, err, "%s: %s", pipe, said)
			assert.Equal(t, others, c.data("aws-auth"), "%s after %s", pipe, maker)
		}
		c.must(c.t, c.auth(c.now(), nodeRole, "--aws-auth", "-"), "apply", "--validate=strict", "-f", "-")
		merged := c.data("aws-auth")
		assert.Equal(t, others["mapRoles"]+"- rolearn: "+nodeRole+"\n  username: system:node:{{EC2PrivateDNSName}}\n  groups:\n    - system:bootstrappers\n    - system:nodes\n", merged["mapRoles"])
		merged["mapRoles"] = others["mapRoles"]
		assert.Equal(t, others, merged)
		c.must(c.t, "", "delete", "configmap", "aws-auth", "-n", "kube-system")
	}
}

// The VPC CNI's ConfigMap gets its key whether the ConfigMap exists or not, and
// keeps keys that were applied before.
func TestVPCCNIConfigMapKeepsItsKeys(t *testing.T) {
	c := newAdministrator(t)
	script := c.prints("", "manifests", "--cluster", "my-cluster", "--role", nodeRole, "--only", "vpc-cni", "--windows")
	shell := func() {
		t.Helper()
		testkit.Output(t, c.command(c.lab.Ctx, "", "sh", "-c", script))
	}
	shell()
	assert.Equal(t, map[string]string{"enable-windows-ipam": "true"}, c.data("amazon-vpc-cni"))
	c.must(c.t, "", "delete", "configmap", "amazon-vpc-cni", "-n", "kube-system")
	c.must(c.t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"amazon-vpc-cni","namespace":"kube-system"},"data":{"warm-ip-target":"3"}}`, "apply", "-f", "-")
	shell()
	shell()
	assert.Equal(t, map[string]string{"enable-windows-ipam": "true", "warm-ip-target": "3"}, c.data("amazon-vpc-cni"))
}

var distro = flag.String("distro", "amazonlinux2023", "shapes of TestChainOnShapes, separated by commas")

// The chain of TestChain on machines of other distributions' shapes. Their
// packages come from the distribution's own package manager.
func TestChainOnShapes(t *testing.T) {
	shapes := shape.All()
	for name := range strings.SplitSeq(*distro, ",") {
		s, ok := shapes[name]
		require.True(t, ok, "no shape %q: there are %v", name, slices.Sorted(maps.Keys(shapes)))
		t.Run(name, func(t *testing.T) { chain(t, lab.System{Shape: &s}).report("chain-" + name) })
	}
}

// changedNothing requires that provisioning an image a second time, and once more
// after a restart, changed nothing.
func (w *world) changedNothing(reports string) {
	w.t.Helper()
	for _, run := range []struct{ name, file string }{
		{"provisioned", "provision.json"}, {"provisioned again", "again.json"}, {"provisioned after a restart", "restarted.json"},
	} {
		r := testkit.JSON[plan.Report](w.t, testkit.Content(w.t, filepath.Join(reports, run.file)))
		var changed []string
		for _, o := range r.Outcomes {
			if o.Status == plan.Done {
				changed = append(changed, o.Item)
			}
		}
		if run.file == "provision.json" {
			assert.NotEmpty(w.t, changed)
		} else {
			assert.Empty(w.t, changed, run.name)
		}
		w.record(run.name, "", fmt.Sprintf("%d of %d steps changed something", len(changed), len(r.Outcomes)), r.Machine.Distro+" in "+r.Finished.Sub(r.Started).Round(time.Second).String())
	}
}
