package distros

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// A distribution without a package manager refuses to install packages, with the
// reason.
func TestDistributionsWithoutAPackageManager(t *testing.T) {
	h, pm := hosttest.Root(t, nil), NoPackageManager()
	const none = "this distribution has no package manager and so no package htop; leave packages empty"
	require.NoError(t, pm.Refresh(t.Context(), h))
	require.NoError(t, pm.Clean(t.Context(), h))
	require.EqualError(t, pm.Install(t.Context(), h, []string{"htop"}), "installing packages: "+none)
	require.EqualError(t, pm.Remove(t.Context(), h, []string{"htop"}), "removing packages: "+none)
	require.EqualError(t, pm.Hold(t.Context(), h, []string{"htop"}), "holding packages: "+none)
	_, err := pm.Pinned("htop", "1")
	require.EqualError(t, err, none)
	have, err := pm.Installed(t.Context(), h, []string{"htop"})
	require.NoError(t, err)
	assert.Empty(t, have)
	assert.False(t, flatcar().HasPackages())
	assert.True(t, debian().HasPackages())
}
