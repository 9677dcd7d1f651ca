//go:build unix

package surface_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

func TestOnlyRegularFilesAreReplaced(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("folder", 0o700))
	require.NoError(t, os.WriteFile("file", []byte("old"), 0o600))
	require.NoError(t, os.Symlink("../file", "folder/link"))
	require.NoError(t, os.Symlink("nowhere", "dangling"))
	require.NoError(t, os.Symlink("/dev/null", "null"))
	require.NoError(t, syscall.Mkfifo("fifo", 0o600))
	for name, kind := range map[string]string{
		"folder": "a folder", "dangling": "a link to nothing", "fifo": "a FIFO", "null": "a device",
	} {
		before, err := os.Lstat(name)
		require.NoError(t, err)
		want := name + " is " + kind + ", not a regular file; name a regular file"
		require.EqualError(t, surface.MayCreate(name), want)
		require.EqualError(t, surface.Replace(name, []byte("new"), nil), want)
		after, err := os.Lstat(name)
		require.NoError(t, err)
		assert.True(t, os.SameFile(before, after), name)
	}
	require.EqualError(t, surface.MayCreate("absent/file"),
		"the folder absent cannot be written: no such file or directory")
	for name, target := range map[string]string{"file": "file", "folder/link": "file", "new": "new"} {
		require.NoError(t, surface.MayCreate(name))
		require.NoError(t, surface.Replace(name, []byte(name), func(f *os.File) error { return f.Chmod(0o640) }))
		text, err := os.ReadFile(target)
		require.NoError(t, err)
		assert.Equal(t, name, string(text))
		st, err := os.Stat(target)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o640), st.Mode())
	}
	require.ErrorIs(t, surface.Replace("file", []byte("lost"), func(*os.File) error { return os.ErrInvalid }),
		os.ErrInvalid)
	text, err := os.ReadFile("file")
	require.NoError(t, err)
	assert.Contains(t, []string{"file", "folder/link"}, string(text))
	files, err := filepath.Glob(".*.*")
	require.NoError(t, err)
	assert.Empty(t, files)
}
