//go:build linux && !agent

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Flags that do not fit together are refused before any call, by their names.
func TestPreflightRefusesFlagsThatDoNotFit(t *testing.T) {
	calls := unreachableAWS(t)
	auto := filepath.Join(t.TempDir(), "auto.yaml")
	require.NoError(t, os.WriteFile(auto, []byte("apiVersion: eks.amazonaws.com/v1\nkind: NodeClass\nmetadata: {name: auto}\n"), 0o600))
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--cluster is missing; set the name of the EKS cluster\n", []string{"--ami", "ami-0123456789abcdef0"}},
		{"the nodes are missing; use one of --instance, --launch-template, --nodegroup, --nodeclass and --ami\n", []string{"--cluster", "x"}},
		{"--launch-template-version has no effect without --launch-template\n", []string{"--cluster", "x", "--ami", "ami-0123456789abcdef0", "--launch-template-version", "3"}},
		{"--launch-template-version has no effect without --launch-template\n", []string{"--cluster", "x", "--nodegroup", "workers", "--launch-template-version", "3"}},
		{"--output: \"xml\" is not known; known: json, junit, sarif, text\n", []string{"--output", "xml"}},
		{"reading aws-auth: open nowhere: no such file or directory\n", []string{"--cluster", "x", "--ami", "ami-0123456789abcdef0", "--aws-auth", "nowhere"}},
		{"reading the EC2NodeClass: open nowhere: no such file or directory\n", []string{"--cluster", "x", "--nodeclass", "nowhere"}},
		{"--nodegroup and --ami exclude each other; use one of them\n", []string{"--cluster", "x", "--ami", "ami-0123456789abcdef0", "--nodegroup", "workers"}},
		{"--instance and --launch-template and --nodeclass exclude each other; use one of them\n", []string{"--cluster", "x", "--nodeclass", "-", "--instance", "i-0123456789abcdef0", "--launch-template", "nodes"}},
		{"--role and --nodegroup exclude each other: a node group names its own\n", []string{"--cluster", "x", "--nodegroup", "workers", "--role", "node"}},
		{"--subnet and --nodegroup exclude each other: a node group names its own\n", []string{"--cluster", "x", "--nodegroup", "workers", "--subnet", "subnet-0123456789abcdef0"}},
		{"--role and --nodeclass exclude each other: an EC2NodeClass names its own\n", []string{"--cluster", "x", "--nodeclass", "-", "--role", "node"}},
		{"--nodeclass and --aws-auth cannot both read standard input; pass a file for one of them\n", []string{"--cluster", "x", "--nodeclass", "-", "--aws-auth", "-"}},
		{"standard input: the manifest is empty; `kubectl get ec2nodeclass NAME -o yaml` prints it\n", []string{"--cluster", "x", "--nodeclass", "-"}},
		{auto + ":1: kind: auto is a NodeClass of EKS Auto Mode, which runs only AWS's own images; your own images need Karpenter's EC2NodeClass (karpenter.k8s.aws/v1) or a node group\n", []string{"--cluster", "x", "--nodeclass", auto}},
		{"--nodegroup: \"a b\" is not a node group's name such as my-nodes: a name has letters, digits, dashes and underscores, and begins with a letter or a digit\n", []string{"--cluster", "x", "--nodegroup", "a b"}},
		{"--role: \"arn:aws:iam::123456789012:instance-profile/node\" is not a role's ARN such as arn:aws:iam::123456789012:role/node: the text names an instance profile; `aws iam get-instance-profile --instance-profile-name node` prints its role\n",
			[]string{"--cluster", "x", "--ami", "ami-0123456789abcdef0", "--role", "arn:aws:iam::123456789012:instance-profile/node"}},
	} {
		code, out, errOut := command(t, "", append([]string{"preflight"}, c.args...)...)
		assert.Equal(t, 2, code, c.args)
		assert.Empty(t, out, c.args)
		assert.Equal(t, "eksnode: "+c.want, errOut, c.args)
	}
	assert.Zero(t, calls.Load())
}
