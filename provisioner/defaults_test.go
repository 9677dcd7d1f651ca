package provisioner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

func defaultsOf(t *testing.T, s Spec) map[string]string {
	t.Helper()
	s.KubernetesVersion = "1.36.3"
	require.NoError(t, s.Validate())
	d := distroOf(t, "debian")
	n := nodeFor(t, s, d, "amd64")
	files := map[string]string{}
	for _, f := range n.defaultsFiles() {
		files[f.Path] = string(f.Content)
	}
	return files
}

func TestNodeDefaults(t *testing.T) {
	files := defaultsOf(t, Spec{NodeDefaults: NodeDefaults{
		KubeletDefaults: "kind: KubeletConfiguration\ncontainerLogMaxSize: 50Mi\nmaxPods: 110\nserializeImagePulls: off\n", MaxConcurrentDownloads: 7, KeepUnpackedLayers: true,
		NodeProxy: "http://proxy.example:3128", NodeNoProxy: []string{".corp.example"},
		RegistryMirrors: map[string]string{"docker.io": "https://a.example, https://b.example/v2/hub/", "*": "http://c.example:5000"},
	}})
	text := files[manifest.DefaultsPath]
	assert.Contains(t, text, `"containerLogMaxSize": "50Mi"`)
	assert.Contains(t, text, `"maxPods": 110`)
	assert.Contains(t, text, `"serializeImagePulls": false`, "Kubernetes reads YAML 1.1")
	assert.NotContains(t, text, "kind")
	assert.Contains(t, text, `"HTTPS_PROXY": "http://proxy.example:3128"`)
	assert.Contains(t, text, `"no_proxy": "localhost,127.0.0.1,::1,169.254.169.254,`)
	assert.Contains(t, text, `172.20.0.0/16,.corp.example"`)
	assert.Contains(t, text, `"maxConcurrentDownloads": 7`)
	assert.Contains(t, text, `"keepUnpackedLayers": true`)
	const head = "# Written by eksnode for registry_mirrors.\n"
	assert.Equal(t, head+`
[host."https://a.example"]
  capabilities = ["pull", "resolve"]

[host."https://b.example/v2/hub"]
  capabilities = ["pull", "resolve"]
  override_path = true
`, files["/etc/containerd/certs.d/docker.io/hosts.toml"])
	assert.Equal(t, head+"\n[host.\"http://c.example:5000\"]\n  capabilities = [\"pull\", \"resolve\"]\n", files["/etc/containerd/certs.d/_default/hosts.toml"])
	assert.Len(t, files, 3)
	assert.Empty(t, defaultsOf(t, Spec{}), "an image without settings has no file")
}

func TestOldNodeDefaultsAreRemoved(t *testing.T) {
	const changed, same = "/etc/containerd/certs.d/a/hosts.toml", "/etc/containerd/certs.d/b/hosts.toml"
	h := hosttest.Mounted(t, t.TempDir())
	m := manifest.Manifest{}
	for _, name := range []string{changed, same, "/etc/other"} {
		require.NoError(t, os.MkdirAll(filepath.Join(h.Root(), filepath.Dir(name)), 0o755))
		require.NoError(t, h.Files.WriteFile(name, []byte("x"), host.Attributes{Mode: 0o644}))
		m.Files = append(m.Files, manifest.File{Path: name, Mode: 0o644, Size: 1, SHA256: manifest.Sum([]byte("x"))})
	}
	require.NoError(t, h.Files.WriteFile(changed, []byte("y"), host.Attributes{Mode: 0o644}))
	require.NoError(t, m.Save(h))
	actions, err := (&node{}).oldDefaults(h)
	require.NoError(t, err)
	require.Len(t, actions, 1)
	assert.Equal(t, same, actions[0].Target)
	actions, err = (&node{spec: Spec{NodeDefaults: NodeDefaults{RegistryMirrors: map[string]string{"b": "https://x"}}}}).oldDefaults(h)
	require.NoError(t, err)
	assert.Empty(t, actions)
}
