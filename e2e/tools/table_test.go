package tools

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKubernetesVersionFromEnvironment(t *testing.T) {
	for asked, want := range map[string]string{"": "1.36.3", "1.35.4": "1.35.4", "1.99.0": "1.36.3"} {
		t.Setenv("KUBERNETES", asked)
		_, got, err := Find(NameKubelet, "")
		require.NoError(t, err)
		assert.Equal(t, want, got)
		_, got, err = Find(NameKubelet, "1.34.4")
		require.NoError(t, err)
		assert.Equal(t, "1.34.4", got)
	}
}

// Builds with different results must have different keys in the cache.
func TestCacheKeysDifferByBuildArguments(t *testing.T) {
	packer, _, err := Find(NamePacker, "")
	require.NoError(t, err)
	tagged := packer
	tagged.tags = []string{"extra"}
	keys := map[string]bool{}
	for _, one := range []builder{
		{tool: packer, version: "1.15.0", arch: "amd64"},
		{tool: packer, version: "1.12.0", arch: "amd64"},
		{tool: packer, version: "1.15.0", arch: "arm64"},
		{tool: tagged, version: "1.15.0", arch: "amd64"},
	} {
		keys[one.key("go1.26.0")] = true
		keys[one.key("go1.26.1")] = true
	}
	assert.Len(t, keys, 8)
}
