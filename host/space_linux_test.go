package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSpaceOfAMissingPathIsThatOfItsParent(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "usr"), 0o755))
	h := mounted(t, root)

	there, err := h.Files.Space("/usr")
	require.NoError(t, err)
	missing, err := h.Files.Space("/usr/lib/nothing/here")
	require.NoError(t, err)

	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(root, &st))
	total := st.Blocks * uint64(st.Bsize)
	for _, s := range []Space{there, missing} {
		assert.False(t, s.ReadOnly)
		assert.Greater(t, s.FreeBytes, uint64(0))
		assert.LessOrEqual(t, s.FreeBytes, total)
	}
}

func TestSpaceReportsReadOnly(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "usr"), 0o755))
	usr := filepath.Join(root, "usr")
	require.NoError(t, unix.Mount("tmpfs", usr, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(usr, 0)) })
	require.NoError(t, unix.Mount("", usr, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	h := mounted(t, root)

	space, err := h.Files.Space("/usr/bin")
	require.NoError(t, err)
	assert.True(t, space.ReadOnly)
	space, err = h.Files.Space("/etc")
	require.NoError(t, err)
	assert.False(t, space.ReadOnly)
}
