package tools

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program built from another module must fail the check.
func TestVerifyRefusesProgramOfAnotherModule(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(folder, "packer")))
	tool, version, err := Find(NamePacker, "")
	require.NoError(t, err)
	err = builder{tool: tool, version: version, arch: "amd64"}.verify(t.Context(), folder, ".")
	require.ErrorContains(t, err, "checking packer: built from github.com/eksnode/packer-plugin-eksnode/e2e/tools.test, must be built from github.com/hashicorp/packer")
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
