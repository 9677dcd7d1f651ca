//go:build linux

package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzResolversAgree creates links and resolves a name by the kernel and by walk.
// Both must find the same path.
func FuzzResolversAgree(f *testing.F) {
	f.Add("/a/b/c", "d/..", "/d", true)
	f.Add("a//b/./c", "/", "a", false)
	f.Add("/d/d/a", "/../../d", "d/d/../../a", true)
	f.Add("/a/b/c", "d", "/missing", true)
	f.Add("a/x", "../../../../../../..", "b", true)
	f.Fuzz(func(t *testing.T, name, first, second string, follow bool) {
		i := newImage(t)
		require.NoError(t, os.MkdirAll(filepath.Join(i.root, "d/d"), 0o755))
		_ = os.Symlink(first, filepath.Join(i.root, "a"))
		_ = os.Symlink(second, filepath.Join(i.root, "d/b"))
		quick, ok, missing := i.Files.resolveByKernel(split(name), follow)
		if missing != nil {
			_, err := i.Files.walk(split(name), follow)
			require.ErrorIs(t, err, missing, name)
		}
		if !ok {
			return
		}
		defer quick.close()
		slow, err := i.Files.walk(split(name), follow)
		require.NoError(t, err, "only the kernel resolves %q", name)
		defer slow.close()
		want, err := realPathOf(slow.dir)
		require.NoError(t, err)
		got, err := realPathOf(quick.dir)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(want, slow.base), filepath.Join(got, quick.base))
	})
}
