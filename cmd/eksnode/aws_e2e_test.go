//go:build e2e && linux && !agent

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/joshdk/go-junit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/preflight"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// node is the sample's instance, by an ID with the form of AWS.
const node = "i-0123456789abcdef0"

func sampled(t *testing.T) *aws.World {
	t.Helper()
	w := aws.Sample(t)
	w.Alias("i-1", node)
	w.Serve()
	return w
}

// untag removes the cluster's tag from the sample's instance.
func untag(w *aws.World) {
	w.Do("ec2:DeleteTags", "ResourceId.1", "i-1", "Tag.1.Key", "kubernetes.io/cluster/my-cluster")
}

// checksOfAnInstance is the number of checks for an instance. Ten others are for node
// groups, EC2NodeClasses, and instances that have not started.
func checksOfAnInstance() int { return len(preflight.Table()) - 10 }

func TestPreflightOutput(t *testing.T) {
	w := sampled(t)
	out, _ := exits(t, 0, "preflight", "--cluster", "my-cluster", "--instance", node)
	assert.Contains(t, out, "OK       cluster               ACTIVE, Kubernetes 1.34, services 10.100.0.0/16,\n                               authentication API_AND_CONFIG_MAP\n")
	assert.True(t, strings.HasSuffix(out, fmt.Sprintf("\n%d OK, 0 FAIL, 0 WARN, 0 UNKNOWN\n", checksOfAnInstance())), out)

	untag(w)
	out, _ = exits(t, 1, "preflight", "--cluster", "my-cluster", "--instance", node)
	assert.Contains(t, out, "FAIL     cluster-tag           the instance "+node+" has no tag\n                               kubernetes.io/cluster/my-cluster=owned\n"+
		"  aws ec2 create-tags --resources "+node+" --tags \\\n    Key=kubernetes.io/cluster/my-cluster,Value=owned\n")
	_, out, _ = command(t, "", "preflight", "--cluster", "my-cluster", "--instance", node, "--output", "junit")
	assert.Contains(t, out, fmt.Sprintf(`<testsuite name="eksnode preflight" tests="%d" failures="1" errors="0" skipped="0">`, checksOfAnInstance()))
	_, out, _ = command(t, "", "preflight", "--cluster", "my-cluster", "--launch-template", "nodes", "--output", "json")
	assert.Contains(t, out, `"target": "launch template nodes, version $Default"`)
	out, _ = exits(t, 0, "preflight", "--cluster", "my-cluster", "--ami", "ami-0123456789abcdef0")
	assert.Contains(t, out, "left out, as they need settings of nodes, which an AMI alone does not have:\n")

	w.Deny("ec2:DescribeVpcs")
	exits(t, 2, "preflight", "--cluster", "my-cluster", "--launch-template", "nodes")
	clear(w.Entries)
	auth := "kind: ConfigMap\ndata: {mapRoles: '[{rolearn: \"arn:aws:iam::123456789012:role/node\", username: \"system:node:{{EC2PrivateDNSName}}\", groups: [system:bootstrappers, system:nodes]}]'}\n"
	_, out, _ = command(t, auth, "preflight", "--cluster", "my-cluster", "--launch-template", "nodes", "--aws-auth", "-")
	assert.Contains(t, out, "OK       access                by aws-auth\n")
	assert.Contains(t, out, "OK       aws-auth              arn:aws:iam::123456789012:role/node is a node\n")
}

// Lines of text output have at most 80 columns, except for longer words. A command
// that is wrapped is still one command.
func TestPreflightFits80Columns(t *testing.T) {
	w := sampled(t)
	untag(w)
	clear(w.Entries)
	clear(w.Addons)
	w.Do("ec2:ModifyInstanceAttribute", "InstanceId", "i-1", "GroupId.1", "sg-node")
	w.Do("iam:UpdateAssumeRolePolicy", "RoleName", "node", "PolicyDocument", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)
	w.Deny("ec2:DescribeVpcs")
	_, out, _ := command(t, "", "preflight", "--cluster", "my-cluster", "--instance", node)
	_, list, _ := command(t, "", "preflight", "--cluster", "my-cluster", "--ami", "ami-0123456789abcdef0")
	for line := range strings.Lines(out + list) {
		if words := strings.Fields(line); len(words) > 3 {
			assert.LessOrEqual(t, len(line), 81, line)
		}
	}
	_, text, _ := command(t, "", "preflight", "--cluster", "my-cluster", "--instance", node, "--output", "json")
	r := testkit.JSON[preflight.Report](t, text)
	joined := strings.ReplaceAll(out, " \\\n   ", "")
	for _, f := range r.Findings {
		assert.Contains(t, joined, f.Remedy)
	}
}

func TestPreflightJUnitCounts(t *testing.T) {
	w := sampled(t)
	untag(w)
	clear(w.Addons)
	w.Deny("ec2:DescribeVpcs")
	_, out, _ := command(t, "", "preflight", "--cluster", "my-cluster", "--instance", node, "--output", "junit")
	suites, err := junit.Ingest([]byte(out))
	require.NoError(t, err)
	totals := suites[0].Totals
	assert.Len(t, suites[0].Tests, totals.Tests)
	assert.Equal(t, 1, totals.Failed)
	assert.Equal(t, 1, totals.Error, "the only error must be service-cidr, which names the checks with the same cause")
	assert.Equal(t, 1, strings.Count(out, "WARN: EKS manages no add-ons"))
}

func TestUserDataFromTheCluster(t *testing.T) {
	aws.Sample(t).Serve()
	for _, f := range userdata.Families() {
		code, out, errOut := command(t, "", "userdata", "render", "--family", f.ID, "--cluster", "my-cluster", "--label", "team=a", "--taint", "cold:NoExecute",
			"--ami", "ami-0123456789abcdef0", "--role", "node")
		require.Equal(t, 0, code, "%s: %s", f.ID, errOut)
		file := t.TempDir() + "/user-data"
		require.NoError(t, os.WriteFile(file, []byte(out), 0o600))
		exits(t, 0, "userdata", "check", file)
	}
	_, errOut := exits(t, 2, "userdata", "render", "--family", "al2023", "--cluster", "other")
	assert.Regexp(t, `^eksnode: describing the cluster other: ResourceNotFoundException: No cluster found for name: other\. \(AWS request ID: \w+\)\n$`, errOut)
}

func TestManifestsOutput(t *testing.T) {
	w := sampled(t)
	const role = "arn:aws:iam::123456789012:role/node"
	out := succeeds(t, "manifests", "--cluster", "my-cluster", "--role", role, "--ami", "ami-0123456789abcdef0",
		"--instance-profile", "nodes")
	for _, heading := range []string{"# role: ", "\n\n# policies: ", "\n\n# cni-role: ", "\n\n# access-entry: ", "\n\n# aws-auth: ", "\n\n# launch-template: ", "\n\n# nodeclass: ", "\n\n# tags: "} {
		assert.Contains(t, out, heading)
	}
	assert.NotContains(t, out, "amazon-vpc-cni")
	assert.NotContains(t, out, "shared")
	assert.Contains(t, out, `"sg-cluster"`)

	// The printed aws-auth ConfigMap passes the preflight.
	_, auth, _ := command(t, "", "manifests", "--cluster", "my-cluster", "--role", role, "--only", "aws-auth")
	clear(w.Entries)
	code, out, _ := command(t, auth, "preflight", "--cluster", "my-cluster", "--instance", node, "--aws-auth", "-")
	assert.Equal(t, 0, code, out)
	_, out, _ = command(t, auth, "manifests", "--cluster", "my-cluster", "--role", role, "--only", "aws-auth", "--aws-auth", "-", "--windows")
	assert.Contains(t, out, "# + ")
	out, errOut := exits(t, 2, "manifests", "--cluster", "my-cluster", "--role", role, "--only", "aws-auth",
		"--aws-auth", "-")
	assert.Empty(t, out, "without the live ConfigMap, kubectl must get no manifest")
	assert.Equal(t, "eksnode: writing aws-auth: reading the ConfigMap: the input is empty; `kubectl get configmap aws-auth -n kube-system -o yaml` prints it, and a cluster without aws-auth needs no --aws-auth\n", errOut)

	w.Clusters["my-cluster"]["version"] = "1.18"
	_, out, _ = command(t, "", "manifests", "--cluster", "my-cluster", "--role", role, "--only", "tags")
	assert.Contains(t, out, "--resources subnet-1 subnet-2 --tags Key=kubernetes.io/cluster/my-cluster,Value=shared\n")
	w.Do("ec2:CreateTags", "ResourceId.1", "subnet-1", "Tag.1.Key", "kubernetes.io/cluster/my-cluster", "Tag.1.Value", "owned")
	_, out, _ = command(t, "", "manifests", "--cluster", "my-cluster", "--role", role, "--only", "tags")
	assert.Contains(t, out, "--resources subnet-2 --tags Key=kubernetes.io/cluster/my-cluster,Value=shared\n", "an existing tag must not be replaced")
	_, out, _ = command(t, "", "manifests", "--cluster", "my-cluster", "--role", role, "--only", "vpc-cni", "--windows")
	assert.Contains(t, out, `enable-windows-ipam: "true"`)

	_, errOut = exits(t, 2, "manifests", "--cluster", "my-cluster", "--role", role, "--only", "vpc-cni")
	assert.Equal(t, "eksnode: --only vpc-cni: not needed for these nodes; launch-template and nodeclass need --ami, vpc-cni needs --windows, cni-role needs --cni-permissions pod-identity\n", errOut)
}
