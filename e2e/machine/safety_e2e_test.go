//go:build e2e

package machine

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRemoveTreeStopsAtMounts(t *testing.T) {
	precious, tree := t.TempDir(), filepath.Join(t.TempDir(), "tree")
	require.NoError(t, os.WriteFile(filepath.Join(precious, "file"), nil, 0o644))
	mounted := filepath.Join(tree, "mounted")
	require.NoError(t, os.MkdirAll(mounted, 0o755))
	require.NoError(t, exec.Command("mount", "--bind", precious, mounted).Run())
	assert.EqualError(t, removeTree(tree), "removing "+tree+": "+mounted+" is mounted: unmount it first")
	require.NoError(t, exec.Command("umount", mounted).Run())
	require.NoError(t, removeTree(tree))
	assert.NoDirExists(t, tree)
	assert.FileExists(t, filepath.Join(precious, "file"))
}

// The instance id becomes part of a path that is removed at the end.
func TestInstanceIDsWithPathsAreRefused(t *testing.T) {
	for _, id := range []string{"", "../i-1", "/", "i-1/..", "."} {
		_, err := Config{Root: "/tree", InstanceID: id}.complete(netip.MustParseAddr("10.77.1.1"))
		assert.ErrorContains(t, err, "must match", id)
	}
}
