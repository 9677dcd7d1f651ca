package base

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrepareUsesCachedTree(t *testing.T) {
	cache := t.TempDir()
	key, err := newRecipe("trixie").key()
	require.NoError(t, err)
	want := filepath.Join(cache, "base", key, "root")
	require.NoError(t, os.MkdirAll(want, 0o755))
	var log bytes.Buffer
	for _, suite := range []string{"", "trixie"} {
		root, err := Debian{Suite: suite, Cache: cache}.Prepare(t.Context(), &log)
		require.NoError(t, err)
		assert.Equal(t, want, root)
	}
	assert.Empty(t, log.String())
}

// Install does nothing on a host that has all packages.
func TestInstallDoesNothingWhenPackagesAreInstalled(t *testing.T) {
	var log bytes.Buffer
	require.NoError(t, Install(t.Context(), &log, "dpkg", "apt"))
	assert.Empty(t, log.String())
	names, err := missing(t.Context(), []string{"dpkg", "eksnode-has-no-such-package"})
	require.NoError(t, err)
	assert.Equal(t, []string{"eksnode-has-no-such-package"}, names)
}
