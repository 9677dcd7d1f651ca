package provisioner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

func TestTheSBOMIsWrittenWhenSet(t *testing.T) {
	h, d := installedDebian(t)
	s := newSource(t)
	spec := Spec{KubernetesVersion: "1.34.4", SourceURL: s.URL, AllowHTTP: true, Sources: Sources{SBOM: true}}
	_, err := apply(t, t.Context(), h, d, spec)
	require.NoError(t, err)
	m, err := manifest.Load(h)
	require.NoError(t, err)
	want, err := m.SBOM()
	require.NoError(t, err)
	have := content(t, h, manifest.SBOMPath)
	assert.Equal(t, string(want), have)
	assert.Contains(t, have, `"purl": "pkg:deb/debian/containerd@1.0?distro=debian-12"`)
	assert.Empty(t, pending(t, h, d, spec))

	spec.SBOM = false
	assert.Contains(t, pending(t, h, d, spec), "remove "+manifest.SBOMPath)
	_, err = apply(t, t.Context(), h, d, spec)
	require.NoError(t, err)
	there, err := h.Exists(manifest.SBOMPath)
	require.NoError(t, err)
	assert.False(t, there)
	assert.Empty(t, pending(t, h, d, spec))
}
