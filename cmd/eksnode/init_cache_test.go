//go:build linux

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

const (
	cacheFile  = "/run/eks/nodeadm/config.json"
	cachedText = `{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "boot": "this-boot",
"spec": {"cluster": {"name": "cached"}, "containerd": {}, "instance": {"localStorage": {}, "network": {}}, "kubelet": {"config": {"maxPods": 5}}}}`
	head = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: "
)

// The cases of amazon-eks-ami's nodeadm/test/e2e/cases/config-cache.
func TestCacheReplacesAMissingSource(t *testing.T) {
	const fallback = "using the NodeConfig in the cache " + cacheFile
	for name, c := range map[string]struct {
		cache, file, source string
		want, warning       string // want is the cluster's name
	}{
		"an empty folder":  {cachedText, "", "file:///etc/eks/nodeadm.d/", "cached", fallback},
		"a file that went": {cachedText, "", "file:///nope.yaml", "cached", fallback},
		"a source":         {cachedText, head + "{cluster: {name: read}}\n", "file:///etc/eks/nodeadm.d/", "read", ""},
		"a mistake":        {cachedText, head + "{foo: 1}\n", "file:///etc/eks/nodeadm.d/", "", ""},
		"no cache":         {"", "", "file:///etc/eks/nodeadm.d/", "", ""},
		"a damaged cache":  {"{", "", "file:///etc/eks/nodeadm.d/", "", ""},
		"an earlier boot":  {`{"boot": "earlier", "spec": {"cluster": {"name": "cached"}}}`, "", "file:///etc/eks/nodeadm.d/", "", ""},
		"another version":  {`{"boot": "this-boot", "spec": {"foo": 1}}`, "", "file:///etc/eks/nodeadm.d/", "", "reading the NodeConfig in the cache"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"/proc/sys/kernel/random/boot_id": "this-boot\n", "/etc/eks/nodeadm.d/.keep": ""}
			if c.cache != "" {
				files[cacheFile] = c.cache
			}
			if c.file != "" {
				files["/etc/eks/nodeadm.d/a.yaml"] = c.file
			}
			h, lines, log := booting(t, files)
			j := joining{cache: cacheFile, sources: []string{c.source}}
			config, _, err := j.resolve(t.Context(), h, nil, log)
			if c.want == "" {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				assert.Equal(t, c.want, config.Spec.Cluster.Name)
			}
			if c.warning == "" {
				assert.Empty(t, *lines)
				return
			}
			require.Len(t, *lines, 1)
			assert.Contains(t, (*lines)[0], c.warning)
		})
	}
}

// The run phase alone would start services with the earlier configuration.
func TestChangedNodeConfigRunsTheConfigPhase(t *testing.T) {
	_, lines, log := booting(t, nil)
	parse := func(text string) *nodeconfig.NodeConfig {
		c, err := nodeconfig.Decode([]byte(text))
		require.NoError(t, err)
		return c
	}
	cached := parse(head + "{kubelet: {config: {maxPods: 5}}}\n")
	i := initFlags{joining: joining{cache: cacheFile}}
	for _, c := range []struct {
		now  string
		want []bootstrap.Phase
	}{
		{"{kubelet: {config: {maxPods: 5}}}\n", []bootstrap.Phase{bootstrap.Config}},
		{"{kubelet: {config: {maxPods: 6}}}\n", []bootstrap.Phase{}},
	} {
		pick := bootstrap.Selection{Skip: []bootstrap.Phase{bootstrap.Config}}
		require.NoError(t, i.inStep(&pick, parse(head+c.now), cached, log))
		assert.Equal(t, c.want, pick.Skip)
	}
	assert.Equal(t, []string{"warning: the NodeConfig differs from the one in the cache " + cacheFile + ": the config phase is not skipped"}, *lines)
}
