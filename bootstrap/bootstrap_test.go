//go:build linux

package bootstrap

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
)

func config(t *testing.T, name, spec string) *nodeconfig.NodeConfig {
	t.Helper()
	c, err := nodeconfig.Decode([]byte(`apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: ` + name + `, apiServerEndpoint: "https://` + name + `.example", certificateAuthority: Y2E` + "=" + `, cidr: 10.100.0.0/16}
` + spec))
	require.NoError(t, err)
	return c
}

func mounted(t *testing.T) *host.Host {
	t.Helper()
	return hosttest.Mounted(t, machineFolder(t, "1.34.4", "2.1.4"))
}

var written = []string{"/etc", "/run", "/var"}

// configure applies the config phase.
func (w *world) configure(t *testing.T, h *host.Host, n *node.Node) {
	t.Helper()
	apply(t, h, w, n, Selection{Skip: []Phase{Run}})
}

func (w *world) join(t *testing.T, h *host.Host, c *nodeconfig.NodeConfig) {
	t.Helper()
	n, err := w.FromNodeConfig(t.Context(), h, c, "")
	require.NoError(t, err)
	w.configure(t, h, n)
}

func (w *world) call(t *testing.T, h *host.Host, args ...string) {
	t.Helper()
	n, err := w.called(t, h, args...)
	require.NoError(t, err)
	w.configure(t, h, n)
}

// called returns the node of a call of bootstrap.sh.
func (w *world) called(t *testing.T, h *host.Host, args ...string) (*node.Node, error) {
	t.Helper()
	a, err := arguments.Parse(args)
	require.NoError(t, err)
	return w.FromArguments(t.Context(), h, a)
}

func given(name string, more ...string) []string {
	return append([]string{name, "--apiserver-endpoint", "https://" + name + ".example", "--b64-cluster-ca", "Y2E="}, more...)
}

// A machine that was a node of cluster a has the same files as a machine that only
// joined cluster b.
func TestNewClusterReplacesThePreviousOne(t *testing.T) {
	joins := map[string]func(*testing.T, *world, *host.Host){
		"NodeConfig": func(t *testing.T, w *world, h *host.Host) {
			w.join(t, h, config(t, "a", "  kubelet: {config: {maxPods: 20}}\n  instance: {environment: {default: {A: b}, kubelet: {C: d}, chronyd: {E: f}}}\n"))
		},
		"bootstrap.sh": func(t *testing.T, w *world, h *host.Host) {
			w.call(t, h, given("a", "--kubelet-extra-args", "--node-labels=a=a")...)
		},
		"Outpost": func(t *testing.T, w *world, h *host.Host) {
			c := config(t, "a", "")
			yes := true
			c.Spec.Cluster.EnableOutpost, c.Spec.Cluster.ID = &yes, "id-a"
			n, err := w.FromNodeConfig(t.Context(), h, c, "")
			require.NoError(t, err)
			assert.ErrorContains(t, try(t, h, w, n, Selection{Skip: []Phase{Run}}), "finding the Outpost's control "+
				"plane: no such host: a.example")
		},
	}
	finals := map[string]func(*testing.T, *world, *host.Host){
		"NodeConfig":   func(t *testing.T, w *world, h *host.Host) { w.join(t, h, config(t, "b", "")) },
		"bootstrap.sh": func(t *testing.T, w *world, h *host.Host) { w.call(t, h, given("b")...) },
	}
	for from, first := range joins {
		for to, last := range finals {
			t.Run(from+" to "+to, func(t *testing.T) {
				fresh, w := mounted(t), surround(t, imdstest.Typical())
				last(t, w, fresh)
				h := mounted(t)
				first(t, w, h)
				left := "/var/lib/kubelet/pki/kubelet-server-current.pem"
				require.NoError(t, h.Files.WriteFile(left, []byte("of a"), host.Attributes{Mode: 0o600}))
				require.NoError(t, h.Files.WriteFile("/var/lib/kubelet/cpu_manager_state", []byte(`{"policyName":"static"}`), host.Attributes{Mode: 0o600}))
				last(t, w, h)
				want, got := contents(tree(t, fresh, written...)), contents(tree(t, h, written...))
				if to == "NodeConfig" { // no service reads bootstrap.sh's configuration then
					delete(got, render.ScriptKubeletConfig)
				}
				assert.Equal(t, want, got)
			})
		}
	}
}

func contents(all map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range all {
		_, out[name], _ = strings.Cut(text, "\n")
	}
	return out
}

func TestUserFilesAreKept(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	user := "/etc/systemd/system/kubelet.service.d/http-proxy.conf"
	same := "/etc/systemd/system/chronyd.service.d/environment.conf"
	for _, name := range []string{user, same} {
		require.NoError(t, h.Files.WriteFile(name, []byte("[Service]\nEnvironment=A=b\n"), host.Attributes{Mode: 0o644}))
	}
	w.join(t, h, config(t, "a", ""))
	for _, name := range []string{user, same} {
		assert.True(t, there(t, h, name), name)
	}
}

func TestOutpostControlPlaneAddressesAreKept(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	yes := true
	c := config(t, "a", "")
	c.Spec.Cluster.EnableOutpost, c.Spec.Cluster.ID = &yes, "id-a"
	addresses := []string{"10.0.0.2", "10.0.0.1", "10.0.0.2"}
	w.Lookup = func(_ context.Context, name string) ([]string, error) {
		if addresses == nil {
			return nil, errors.New("AWS is out of reach")
		}
		return slices.Clone(addresses), nil
	}
	want := "127.0.0.1 localhost\n10.0.0.1\ta.example # eksnode init\n10.0.0.2\ta.example # eksnode init\n"
	hosts := func() string { return contentOf(t, h, "/etc/hosts") }
	w.join(t, h, c)
	assert.Equal(t, want, hosts())
	addresses = nil
	w.join(t, h, c)
	assert.Equal(t, want, hosts(), "the addresses stay while the name does not resolve")
	// The kubelet of an Outpost writes its own kubeconfig, which must stay.
	require.NoError(t, h.Files.WriteFile(render.Kubeconfig, []byte("clusters:\n- cluster:\n    server: https://a.example\n"), host.Attributes{Mode: 0o600}))
	w.join(t, h, c)
	assert.True(t, there(t, h, render.Kubeconfig))
	w.join(t, h, config(t, "b", ""))
	assert.Equal(t, "127.0.0.1 localhost\n", hosts())
}

func TestBootstrapShMakesOnlyNeededRequests(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	w.aws.described = node.Described{Endpoint: "https://described", CA: []byte("ca"), IPv4CIDR: "172.30.0.0/16"}
	w.call(t, h, "my-cluster", "--aws-api-retry-attempts", "7")
	assert.Equal(t, []string{"cluster my-cluster in eu-west-1, 7 more times"}, w.aws.asked)
	assert.Contains(t, contentOf(t, h, render.ScriptKubeletConfig), `"172.30.0.10"`)
	assert.NotContains(t, strings.Join(w.service.Requests(), " "), "vpc-ipv4-cidr-blocks")

	w.aws.err = errors.New("denied")
	_, err := w.called(t, h, "my-cluster")
	assert.EqualError(t, err, "describing the cluster my-cluster: denied; set --apiserver-endpoint and --b64-cluster-ca to skip this request")
}

func TestEditedTemplatesAreUsed(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	write := func(name, text string) {
		require.NoError(t, h.Files.WriteFile(name, []byte(text), host.Attributes{Mode: 0o644}))
	}
	write(templates.KubeletConfig, `{"kind": "KubeletConfiguration", "eventRecordQPS": 0}`)
	write(templates.ContainerdConfig, "sandbox_image = \"SANDBOX_IMAGE\" # mine\n")
	w.call(t, h, given("a")...)
	assert.Contains(t, contentOf(t, h, render.ScriptKubeletConfig), `"eventRecordQPS": 0`)
	assert.Equal(t, "sandbox_image = \""+image+"\" # mine\n", contentOf(t, h, render.ContainerdConfig))
	assert.Equal(t, "sandbox_image = \"SANDBOX_IMAGE\" # mine\n", contentOf(t, h, templates.ContainerdConfig),
		"the template stays a template")

	write("/home/c.toml", "version = 2\n")
	w.call(t, h, given("a", "--containerd-config-file", "/home/c.toml")...)
	assert.Equal(t, "version = 2\n", contentOf(t, h, render.ContainerdConfig))
	_, err := w.called(t, h, given("a", "--containerd-config-file", "/nope")...)
	assert.EqualError(t, err, "reading --containerd-config-file: /nope is missing")
}

// The cache avoids requests within one boot only.
func TestCacheIsValidForOneBoot(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	boot := func(id string) {
		require.NoError(t, os.MkdirAll(filepath.Join(h.Root(), "proc/sys/kernel/random"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(h.Root(), bootID), []byte(id+"\n"), 0o644))
	}
	hasDefaults(t, h, imageDefaults) // are not part of the cache
	requests := func(c *nodeconfig.NodeConfig) int {
		asked := len(w.service.Requests())
		_, err := w.FromNodeConfig(t.Context(), h, c, "/run/cache.json")
		require.NoError(t, err)
		cached, err := CachedConfig(h, "/run/cache.json")
		require.NoError(t, err)
		now, err := c.SpecJSON()
		require.NoError(t, err)
		before, err := cached.SpecJSON()
		require.NoError(t, err)
		assert.Equal(t, string(now), string(before))
		return len(w.service.Requests()) - asked
	}
	boot("one")
	assert.Positive(t, requests(config(t, "a", "")))
	assert.Zero(t, requests(config(t, "b", "")), "another cluster needs the same facts")
	assert.Positive(t, requests(config(t, "b", "  featureGates: {InstanceIdNodeName: true}\n")), "another cached set of facts")
	assert.Zero(t, requests(config(t, "b", "  featureGates: {InstanceIdNodeName: true}\n")))
	boot("two")
	assert.Positive(t, requests(config(t, "b", "  featureGates: {InstanceIdNodeName: true}\n")), "the same facts, another boot")
	assert.Positive(t, requests(config(t, "b", "")))
	require.NoError(t, h.Files.WriteFile("/run/cache.json", []byte("{"), host.Attributes{Mode: 0o600}))
	assert.Positive(t, requests(config(t, "b", "")))
}

func TestFIPSRegistryIsUsedIfTheRegionHasOne(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	testkit.Write(t, filepath.Join(h.Root(), "proc/sys/crypto/fips_enabled"), "1\n")
	n := w.node(t, h, "a", "")
	assert.Equal(t, "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5", n.Containerd.PauseImage)
	assert.Equal(t, []string{"warning: 602401143452.dkr.ecr-fips.eu-west-1.amazonaws.com does not resolve: the pause image comes from an endpoint that is not validated for FIPS"}, w.log)
	w.Lookup = func(context.Context, string) ([]string, error) { return []string{"10.0.0.1"}, nil }
	n = w.node(t, h, "a", "")
	assert.Equal(t, "602401143452.dkr.ecr-fips.eu-west-1.amazonaws.com/eks/pause:3.5", n.Containerd.PauseImage)
}

func TestSelectedDaemonIsConfiguredAlone(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	apply(t, h, w, w.node(t, h, "a", ""), Selection{Skip: []Phase{Run}, Daemons: []string{"containerd"}})
	var got []string
	for name := range maps.Keys(tree(t, h, "/etc/containerd", "/etc/kubernetes", "/var")) {
		got = append(got, name)
	}
	assert.ElementsMatch(t, []string{render.ContainerdConfig, render.BaseRuntimeSpec}, got)
	assert.EqualError(t, Selection{Skip: []Phase{"start"}, Daemons: []string{"docker"}}.Check(),
		"unknown phase \"start\"; known are config, run\nunknown daemon \"docker\"; known are containerd, kubelet")
}

func TestInvalidNodeConfigReportsAllErrors(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	c := config(t, "a", "")
	c.Spec.Cluster = nodeconfig.Cluster{}
	_, err := w.FromNodeConfig(t.Context(), h, c, "")
	assert.ErrorContains(t, err, "checking the NodeConfig:\nspec.cluster.name: is missing")
	assert.ErrorContains(t, err, "\nspec.cluster.cidr: is missing")
	assert.Empty(t, w.service.Requests())
}
