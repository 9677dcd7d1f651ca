//go:build linux

package packages

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// imageOf returns an image root with these files, and its path.
func imageOf(t testing.TB, files map[string]string) (*host.Host, string) {
	t.Helper()
	h := hosttest.Root(t, files)
	return h, h.Root()
}

// Packages list files by paths from before the distribution merged folders, such
// as /bin into /usr/bin. Owners are found by the resolved path.
func TestOwnersAreFoundByResolvedPath(t *testing.T) {
	h, root := imageOf(t, map[string]string{
		"usr/bin/tool": "x", "usr/lib/a/b": "x", "usr/lib/ab": "x", "srv/free": "x",
		"var/lib/dpkg/info/tool:amd64.list": "/.\n/bin\n/bin/tool\n/lib/a/b\n/lib/a/missing\n/lib/ab\n/usr/../srv/./up\n",
	})
	require.NoError(t, os.Symlink("usr/bin", filepath.Join(root, "bin")))
	require.NoError(t, os.Symlink("/usr/lib", filepath.Join(root, "lib")))
	owners, err := ReadOwners(t.Context(), h)
	require.NoError(t, err)
	for _, c := range []struct {
		place  string
		itself bool
		file   string
	}{
		{"/usr/bin/tool", true, "/usr/bin/tool"}, {"/usr/bin", true, "/usr/bin/tool"}, {"/usr/bin/tool", false, ""}, {"/usr/bin/too", true, ""},
		{"/usr/lib/a", true, "/usr/lib/a/b"}, {"/usr/lib/a/missing", true, ""}, {"/", false, "/bin"}, {"/srv", true, ""}, {"/usr/lib/a/b/c", true, ""},
	} {
		file, owner, err := owners.Below(h, c.place, c.itself)
		require.NoError(t, err)
		assert.Equal(t, c.file, file, c.place)
		assert.Equal(t, c.file != "", owner == "tool:amd64", c.place)
	}
}

// FuzzLists reads any text as the file lists of dpkg and pacman.
func FuzzLists(f *testing.F) {
	f.Add("/.\n/usr\n/usr/bin/tool\n", "%FILES%\nusr/\nusr/bin/tool\n\n%BACKUP%\netc/x\t0\n", "Package: tool\nStatus: install ok installed\n")
	f.Add("\x00\x00", "%FILES%\n../../etc/passwd\n", "Package:\n\n\nStatus: installed")
	h, root := imageOf(f, map[string]string{"var/lib/dpkg/info/tool.list": "", "var/lib/dpkg/status": "", "var/lib/pacman/local/tool-1-1/files": ""})
	f.Fuzz(func(t *testing.T, list, files, status string) {
		for name, text := range map[string]string{"var/lib/dpkg/info/tool.list": list, "var/lib/dpkg/status": status, "var/lib/pacman/local/tool-1-1/files": files} {
			require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
		}
		owners, err := ReadOwners(t.Context(), h)
		if err != nil {
			return
		}
		for _, o := range owners.files {
			require.True(t, filepath.IsAbs(o.place) && o.place == filepath.Clean(o.place), o.place)
		}
	})
}
