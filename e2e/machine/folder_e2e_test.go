//go:build e2e

package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRemoveTreeDoesNotGoThroughMounts(t *testing.T) {
	precious := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(precious, "file"), nil, 0o644))
	tree := filepath.Join(t.TempDir(), "tree")
	mounted := filepath.Join(tree, "mounted")
	require.NoError(t, os.MkdirAll(mounted, 0o755))
	require.NoError(t, exec.Command("mount", "--bind", precious, mounted).Run())
	unmount := func() error { return exec.Command("umount", mounted).Run() }
	err := removeTree(tree)
	assert.EqualError(t, err, "removing "+tree+": "+mounted+" is mounted: unmount it first")
	assert.FileExists(t, filepath.Join(precious, "file"))
	require.NoError(t, unmount())
	require.NoError(t, removeTree(tree))
	assert.NoDirExists(t, tree)
	assert.FileExists(t, filepath.Join(precious, "file"))
}
