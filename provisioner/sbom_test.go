package provisioner

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

func TestTheSBOMIsWrittenWhenSet(t *testing.T) {
	h, d, _, spec := scene(t)
	spec.Sources = Sources{SBOM: true}
	provision(t, h, d, spec)
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
	provision(t, h, d, spec)
	there, err := h.Exists(manifest.SBOMPath)
	require.NoError(t, err)
	assert.False(t, there)
	assert.Empty(t, pending(t, h, d, spec))
}
