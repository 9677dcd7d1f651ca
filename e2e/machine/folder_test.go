package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenFolderSweepsWhatDeadLabsLeft(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "run")
	dead := filepath.Join(parent, "lab-dead")
	require.NoError(t, os.MkdirAll(filepath.Join(dead, "i-1", "upper"), 0o755))
	other := filepath.Join(parent, "others")
	require.NoError(t, os.MkdirAll(other, 0o755))

	first, err := openFolder(parent)
	require.NoError(t, err)
	assert.NoDirExists(t, dead)
	assert.DirExists(t, other)

	second, err := openFolder(parent)
	require.NoError(t, err)
	assert.DirExists(t, first.path, "a lab that is in use was swept")
	assert.NotEqual(t, first.name(), second.name())

	require.NoError(t, first.remove())
	assert.NoDirExists(t, first.path)
	require.NoError(t, second.remove())
}
