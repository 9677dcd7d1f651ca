//go:build linux

package bootstrap

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

func consumer(t *testing.T, name string) []byte {
	t.Helper()
	return []byte(testkit.Content(t, filepath.Join("../examples/consumers", name)))
}

// boot applies user data in the order of a real boot: the config phase of the boot
// units, the scripts of cloud-init, the configuration of the run phase.
func boot(t *testing.T, userData []byte) (*host.Host, *world) {
	t.Helper()
	i := imdstest.Typical()
	i.UserData = userData
	h, w := mounted(t), surround(t, i)
	w.aws.described = node.Described{Endpoint: "https://described", CA: []byte("ca"), IPv4CIDR: "10.100.0.0/16"}
	load := func(sources ...string) {
		c, _, err := nodeconfig.Reader{Files: h.Files, UserData: w.metadata.UserData}.Load(t.Context(), sources)
		if errors.Is(err, nodeconfig.ErrNone) {
			return
		}
		require.NoError(t, err)
		w.join(t, h, c)
	}
	load(nodeconfig.UserDataSource)
	for _, script := range scripts(t, userData) {
		for _, call := range runScript(t, h, script) {
			w.call(t, h, call...)
		}
	}
	load(nodeconfig.UserDataSource, "file:///etc/eks/nodeadm.d/")
	return h, w
}

// scripts returns the scripts that cloud-init runs.
func scripts(t *testing.T, userData []byte) []string {
	t.Helper()
	if bytes.HasPrefix(userData, []byte("#!")) {
		return []string{string(userData)}
	}
	m, err := mail.ReadMessage(bytes.NewReader(userData))
	if err != nil {
		return nil // plain YAML
	}
	contentType := strings.Replace(m.Header.Get("Content-Type"), "boundary=//", `boundary="//"`, 1) // eksctl's
	_, params, err := mime.ParseMediaType(contentType)
	require.NoError(t, err)
	var list []string
	r := multipart.NewReader(m.Body, params["boundary"])
	for {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/x-shellscript") {
			text, err := io.ReadAll(part)
			require.NoError(t, err)
			list = append(list, string(text))
		}
	}
}

// runScript runs a user data script with its own interpreter and the machine's
// folders. It returns the recorded arguments of each call of bootstrap.sh.
func runScript(t *testing.T, h *host.Host, script string) [][]string {
	t.Helper()
	folder := t.TempDir()
	notes := filepath.Join(folder, "calls")
	stub := filepath.Join(folder, "bootstrap.sh")
	require.NoError(t, os.WriteFile(stub, []byte("#!/bin/sh\nprintf '%s\\0' \"$@\" >> "+notes+"\nprintf '\\n' >> "+notes+"\n"), 0o755))
	text := strings.NewReplacer("/etc/eks/bootstrap.sh", stub, "/etc/eks/nodeadm.d", filepath.Join(h.Root(), "etc/eks/nodeadm.d")).Replace(script)
	file := filepath.Join(folder, "script")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o755))
	shell, _, _ := strings.Cut(strings.TrimPrefix(text, "#!"), "\n")
	testkit.Run(t, shell, file)
	calls, err := os.ReadFile(notes)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	var list [][]string
	for line := range strings.Lines(string(calls)) {
		list = append(list, strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "\x00"), "\x00"))
	}
	return list
}

// has asserts that a file on the machine contains all parts.
func has(t *testing.T, h *host.Host, name string, parts ...string) {
	t.Helper()
	text := contentOf(t, h, name)
	for _, p := range parts {
		assert.Contains(t, text, p, name)
	}
}

func find(t *testing.T, n *yaml.Node, way ...any) *yaml.Node {
	t.Helper()
	if n.Kind == yaml.DocumentNode {
		n = n.Content[0]
	}
	for _, step := range way {
		var next *yaml.Node
		switch s := step.(type) {
		case int:
			next = n.Content[s]
		case string:
			for i := 0; i < len(n.Content); i += 2 {
				if n.Content[i].Value == s {
					next = n.Content[i+1]
				}
			}
		}
		require.NotNil(t, next, "%v in %v", step, way)
		n = next
	}
	return n
}

func document(t *testing.T, text []byte) *yaml.Node {
	t.Helper()
	var n yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &n))
	return &n
}

const endpoint = "https://0123456789ABCDEF0123456789ABCDEF.gr7.eu-west-1.eks.amazonaws.com"

// mergedBy returns user data as a tool merges it, with what replaces its placeholders.
func mergedBy(t *testing.T, name string, replace ...string) []byte {
	t.Helper()
	replace = append(replace, "{endpoint}", endpoint)
	return []byte(strings.NewReplacer(replace...).Replace(testkit.Content(t, "testdata/"+name)))
}

func TestLaunchTemplateWithNodeConfigJoins(t *testing.T) {
	h, w := boot(t, consumer(t, "launch-template-nodeconfig.mime"))
	assert.Empty(t, w.aws.asked)
	has(t, h, render.Kubeconfig, "server: "+endpoint, `"my-cluster"`)
	has(t, h, render.ClusterCA, "-----BEGIN CERTIFICATE-----")
	has(t, h, render.KubeletConfig, `"maxPods": 20`, `"10.100.0.10"`)
	has(t, h, render.KubeletDropIn, `"shutdownGracePeriod": "30s"`)
	has(t, h, render.KubeletEnvironment, " --node-labels=example.com/team=storage,example.com/tier=hot --node-labels=example.com/configured-by=user-data\n")
}

func TestLaunchTemplateWithBootstrapShJoins(t *testing.T) {
	h, w := boot(t, consumer(t, "launch-template-bootstrap.mime"))
	assert.Empty(t, w.aws.asked)
	has(t, h, render.Kubeconfig, "server: "+endpoint)
	has(t, h, render.ScriptKubeletConfig, `"10.100.0.10"`)
	has(t, h, render.ScriptExtraArguments, "\nEnvironment='KUBELET_EXTRA_ARGS=--max-pods=58 --node-labels=example.com/team=storage'\n")
	assert.NotContains(t, contentOf(t, h, render.ScriptKubeletConfig), "maxPods")
}

func TestEksctlNodeGroupsJoin(t *testing.T) {
	config := document(t, consumer(t, "eksctl.yaml"))
	own := find(t, config, "managedNodeGroups", 0, "overrideBootstrapCommand").Value
	// eksctl puts the user's NodeConfig before its own. Source: its user guide,
	// "Node bootstrapping".
	h, _ := boot(t, mergedBy(t, "eksctl.mime", "{own}", own))
	has(t, h, render.KubeletDropIn, `"registryPullQPS": 20`, `"10.100.0.10"`)
	has(t, h, render.KubeletEnvironment, "nodegroup-name=nodeconfig --register-with-taints=special=true:NoSchedule\n")

	h, w := boot(t, []byte(find(t, config, "nodeGroups", 0, "overrideBootstrapCommand").Value))
	assert.Equal(t, []string{"cluster my-cluster in eu-west-1, 3 more times"}, w.aws.asked)
	has(t, h, render.Kubeconfig, "server: https://described")
	has(t, h, render.ScriptExtraArguments, "alpha.eksctl.io/nodegroup-name=bootstrap'\n")
}

func TestCloudFormationNodesJoin(t *testing.T) {
	template := document(t, consumer(t, "cloudformation.yaml"))
	userData := find(t, template, "Resources", "NodeLaunchTemplate", "Properties", "LaunchTemplateData", "UserData", "Fn::Base64")
	require.Equal(t, "!Sub", userData.Tag)
	text := userData.Value
	for _, parameter := range []string{"ClusterName", "BootstrapArguments"} {
		text = strings.ReplaceAll(text, "${"+parameter+"}", find(t, template, "Parameters", parameter, "Default").Value)
	}
	require.NotContains(t, text, "${")
	h, w := boot(t, []byte(text))
	assert.Equal(t, []string{"cluster my-cluster in eu-west-1, 5 more times"}, w.aws.asked)
	has(t, h, render.ScriptExtraArguments, "=--node-labels=example.com/team=storage'\n")
}

func TestKarpenterNodesJoin(t *testing.T) {
	class := document(t, consumer(t, "karpenter.yaml"))
	assert.Equal(t, "AL2023", find(t, class, "spec", "amiFamily").Value)
	own := find(t, class, "spec", "userData").Value
	// Karpenter puts its NodeConfig after the user's. Source:
	// aws/karpenter-provider-aws, pkg/providers/amifamily/bootstrap/nodeadm.go.
	h, _ := boot(t, mergedBy(t, "karpenter.mime", "{own}", own))
	has(t, h, render.KubeletDropIn, `"karpenter.sh/unregistered"`, `"shutdownGracePeriod": "30s"`, `"KubeletSeparateDiskGC": true`, `"maxPods": 29`)
	has(t, h, render.KubeletEnvironment, ` --node-labels="karpenter.k8s.aws/ec2nodeclass=own-image,karpenter.sh/capacity-type=on-demand,karpenter.sh/nodepool=own-image"`+"\n")
}

func TestOpenTofuNodesJoin(t *testing.T) {
	_, text, _ := strings.Cut(string(consumer(t, "nodes.tf")), "<<-EOT\n")
	text, _, _ = strings.Cut(text, "\n  EOT")
	const cluster = "${data.aws_eks_cluster.this."
	text = strings.NewReplacer("\n    ", "\n", cluster+"name}", "my-cluster", cluster+"endpoint}", endpoint,
		cluster+"certificate_authority[0].data}", "Y2E=", cluster+"kubernetes_network_config[0].service_ipv4_cidr}", "10.100.0.0/16",
	).Replace("\n" + text)
	require.NotContains(t, text, "${")
	h, _ := boot(t, []byte(text[1:]))
	has(t, h, render.Kubeconfig, "server: "+endpoint)
	has(t, h, render.KubeletEnvironment, "--node-labels=example.com/team=storage")
}

func TestClusterAPINodesJoin(t *testing.T) {
	parts := strings.Split(string(consumer(t, "cluster-api.yaml")), "\n---\n")
	config := document(t, []byte(parts[2]))
	require.Equal(t, "NodeadmConfigTemplate", find(t, config, "kind").Value)
	own := find(t, config, "spec", "template", "spec")
	// CAPA writes these fields into a NodeConfig, with its own labels. Source:
	// kubernetes-sigs/cluster-api-provider-aws, bootstrap/eks/internal/userdata/nodeadm.go.
	h, _ := boot(t, mergedBy(t, "cluster-api.mime", "{named}", find(t, own, "featureGates", "InstanceIdNodeName").Value,
		"{period}", find(t, own, "kubelet", "config", "shutdownGracePeriod").Value,
		"{flag}", find(t, own, "kubelet", "flags", 0).Value))
	has(t, h, render.KubeletDropIn, `"shutdownGracePeriod": "30s"`)
	has(t, h, render.KubeletEnvironment, "--node-labels=example.com/team=storage,eks.amazonaws.com/capacityType=ON_DEMAND")
}

func TestEveryConsumerIsTested(t *testing.T) {
	entries, err := os.ReadDir("../examples/consumers")
	require.NoError(t, err)
	self := testkit.Content(t, "consumers_test.go")
	readme := string(consumer(t, "README.md"))
	for _, e := range entries {
		if e.Name() != "README.md" {
			assert.Contains(t, self, `"`+e.Name()+`"`)
			assert.Contains(t, readme, "("+e.Name()+")")
		}
	}
}
