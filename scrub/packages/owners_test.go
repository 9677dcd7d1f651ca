//go:build linux

package packages

import (
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// Packages list files by paths from before the distribution merged folders, such
// as /bin into /usr/bin. Owners are found by the resolved path.
func TestOwnersAreFoundByResolvedPath(t *testing.T) {
	h := hosttest.Root(t, map[string]string{
		"bin": "-> usr/bin", "lib": "-> /usr/lib", "usr/bin/tool": "x", "usr/lib/a/b": "x", "usr/lib/ab": "x",
		"srv/free":                          "x",
		"var/lib/dpkg/info/tool:amd64.list": "/.\n/bin\n/bin/tool\n/lib/a/b\n/lib/a/missing\n/lib/ab\n/usr/../srv/./up\n",
	})
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
	h := hosttest.Root(f, map[string]string{
		"var/lib/dpkg/info/tool.list": "", "var/lib/dpkg/status": "", "var/lib/pacman/local/tool-1-1/files": "",
	})
	f.Fuzz(func(t *testing.T, list, files, status string) {
		for name, text := range map[string]string{"var/lib/dpkg/info/tool.list": list, "var/lib/dpkg/status": status, "var/lib/pacman/local/tool-1-1/files": files} {
			require.NoError(t, os.WriteFile(filepath.Join(h.Root(), name), []byte(text), 0o644))
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

func TestInstalledPackagesHaveTheNamesOfOwners(t *testing.T) {
	h := hosttest.Root(t, map[string]string{
		"var/lib/dpkg/status": "Package: tool\nStatus: install ok installed\nArchitecture: amd64\nSource: tools (2.0)\nVersion: 1:2.0-1\nDescription: x\n Version: 9\n\n" +
			"Package: libc6\nStatus: install ok installed\nMulti-Arch: same\nArchitecture: amd64\nVersion: 2.36\n\n" +
			"Package: libc6\nStatus: hold ok installed\nMulti-Arch: same\nArchitecture: arm64\nVersion: 2.36\n\n" +
			"Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\nPackage: half\nStatus: install ok half-configured\nVersion: 1\n",
		"var/lib/dpkg/info/tool.list":        "/usr\n/usr/bin\n/usr/bin/tool\n/srv/own\n",
		"var/lib/dpkg/info/libc6:amd64.list": "/usr\n/usr/lib\n/usr/lib/x\n",
		"var/lib/dpkg/info/libc6:arm64.list": "/usr\n/usr/lib\n",
		"var/lib/pacman/local/a-b-1-2/desc":  "%NAME%\na-b\n\n%VERSION%\n1-2\n\n%BASE%\na\n\n%LICENSE%\nMIT\nGPL-2.0-only\n\n%DESC%\n%NAME%\n",
		"var/lib/pacman/local/a-b-1-2/files": "%FILES%\nopt/\nopt/a\n\n%BACKUP%\netc/b\t0\n",
		"var/lib/pacman/local/ALPM_DB":       "9\n",
	})
	installed, err := ReadInstalled(t.Context(), h)
	require.NoError(t, err)
	assert.Equal(t, Installed{
		"tool": {Name: "tool", Version: "1:2.0-1", Source: "tools@2.0"}, "libc6:amd64": {Name: "libc6:amd64",
			Version: "2.36"},
		"libc6:arm64": {Name: "libc6:arm64", Version: "2.36"}, "a-b-1-2": {"a-b", "1-2", "a", "MIT AND GPL-2.0-only"},
	}, installed)
	owners, err := ReadOwners(t.Context(), h)
	require.NoError(t, err)
	for place, want := range map[string]string{
		"/usr": "", "/usr/lib": "", "/usr/bin": "tool", "/usr/bin/tool": "tool", "/usr/lib/x": "libc6:amd64", "/opt/a": "a-b-1-2", "/etc/b": "", "/absent": "", "/": "",
	} {
		assert.Equal(t, want, owners.Of(place), place)
	}

	all := Installed{}
	all.add("kernel", Package{Name: "kernel", Version: "6.2-1"})
	all.add("kernel", Package{Name: "kernel", Version: "6.1-1"})
	all.add("kernel", Package{Name: "kernel", Version: "6.2-1"})
	assert.Equal(t, Installed{"kernel": {Name: "kernel", Version: "6.1-1, 6.2-1"}}, all)
}

// FuzzInstalled reads any text as the packages of dpkg and pacman.
func FuzzInstalled(f *testing.F) {
	f.Add("Package: tool\nStatus: install ok installed\nVersion: 1\n", "%NAME%\ntool\n\n%VERSION%\n1-1\n")
	f.Add("Package:\nStatus: x installed\n\n\n:\n", "%NAME%\n%NAME%")
	h := hosttest.Root(f, map[string]string{"var/lib/dpkg/status": "", "var/lib/pacman/local/tool-1-1/desc": ""})
	f.Fuzz(func(t *testing.T, status, desc string) {
		for name, text := range map[string]string{"var/lib/dpkg/status": status, "var/lib/pacman/local/tool-1-1/desc": desc} {
			require.NoError(t, os.WriteFile(filepath.Join(h.Root(), name), []byte(text), 0o644))
		}
		all, err := ReadInstalled(t.Context(), h)
		require.NoError(t, err)
		require.Contains(t, all, "tool-1-1")
		require.NotContains(t, all, "")
	})
}

func md5Of(text string) string { return fmt.Sprintf("%x", md5.Sum([]byte(text))) }

func sha256Of(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// Checksums come from dpkg's lists and status, and from pacman's manifests.
// Diverted files are at their new place, and merged folders are resolved.
func TestOriginalsOfDpkgAndPacman(t *testing.T) {
	mtree := testkit.Gzip("#mtree\n/set type=file uid=0\n./usr/bin/a\\040b time=1.0 size=3 sha256digest=" + sha256Of("one") + "\n./usr/share type=dir\n./etc/a.conf size=1 md5digest=x sha256digest=" + sha256Of("two") + "\n")
	h := hosttest.Root(t, map[string]string{
		"bin": "-> usr/bin", "usr/bin/tool": "", "usr/bin/view.vim": "",
		"var/lib/dpkg/info/tool:amd64.md5sums": md5Of("tool") + "  bin/tool\n" + md5Of("view") + "  usr/bin/view\nno checksum\nzz  usr/bin/damaged\n",
		"var/lib/dpkg/info/vim.md5sums":        md5Of("vim") + "  usr/bin/view\n",
		"var/lib/dpkg/diversions":              "/usr/bin/view\n/usr/bin/view.tool\nvim\n",
		"var/lib/dpkg/status":                  "Package: tool\nStatus: install ok installed\nConffiles:\n /etc/tool.conf " + md5Of("conf") + "\n /etc/old.conf " + md5Of("old") + " obsolete\n /etc/new newconffile\nDescription: x\n /etc/no.conf " + md5Of("no") + "\n",
		"var/lib/pacman/local/a-1-1/mtree":     string(mtree),
		"var/lib/pacman/local/a-1-1/files":     "%FILES%\nusr/\nusr/bin/a b\n\n%BACKUP%\netc/a.conf\t0\n",
		"var/lib/pacman/local/b-1-1/files":     "%FILES%\nusr/\n",
	})
	originals, err := ReadOriginals(t.Context(), h)
	require.NoError(t, err)
	assert.Equal(t, []string{"/etc/a.conf", "/etc/old.conf", "/etc/tool.conf", "/usr/bin/a b", "/usr/bin/tool", "/usr/bin/view", "/usr/bin/view.tool"}, originals.Places())
	for place, content := range map[string]string{
		"/etc/a.conf": "two", "/etc/old.conf": "old", "/etc/tool.conf": "conf", "/usr/bin/a b": "one", "/usr/bin/tool": "tool", "/usr/bin/view": "vim", "/usr/bin/view.tool": "view",
	} {
		for text, want := range map[string]bool{content: true, content + " ": false, "": false} {
			same, err := Same(originals[place], strings.NewReader(text))
			require.NoError(t, err)
			assert.Equal(t, want, same, "%s with %q", place, text)
		}
		assert.Equal(t, strings.HasPrefix(place, "/etc/"), originals[place][0].Config, place)
	}
	assert.Equal(t, "tool:amd64", originals["/usr/bin/tool"][0].Package)

	h = hosttest.Root(t, map[string]string{"usr/bin/tool": ""})
	originals, err = ReadOriginals(t.Context(), h)
	require.NoError(t, err)
	assert.Empty(t, originals, "a machine without a package manager")
}

func TestDamagedManifestsAreNamed(t *testing.T) {
	h := hosttest.Root(t, map[string]string{
		"var/lib/pacman/local/a-1-1/mtree": "\x1f\x8bno", "var/lib/pacman/local/a-1-1/files": "",
	})
	_, err := ReadOriginals(t.Context(), h)
	assert.EqualError(t, err, "reading pacman's database: the checksums of a-1-1: unexpected EOF")
}

// FuzzOriginals reads any text as the checksums of dpkg and pacman.
func FuzzOriginals(f *testing.F) {
	f.Add(md5Of("")+"  usr/bin/tool\n", "Package: tool\nConffiles:\n /etc/x "+md5Of("")+"\n", "/a\n/b\nc\n", "./usr/bin/\\057x sha256digest="+sha256Of("")+"\n")
	f.Add("\x00  ../../x\n", "Conffiles:\n x y\n /\n", "\n\n\n", "\x1f\x8b")
	h := hosttest.Root(f, map[string]string{
		"var/lib/dpkg/info/tool.md5sums": "", "var/lib/dpkg/status": "", "var/lib/dpkg/diversions": "",
		"var/lib/pacman/local/tool-1-1/mtree": "", "var/lib/pacman/local/tool-1-1/files": "",
	})
	f.Fuzz(func(t *testing.T, sums, status, diversions, mtree string) {
		for name, text := range map[string]string{"var/lib/dpkg/info/tool.md5sums": sums, "var/lib/dpkg/status": status, "var/lib/dpkg/diversions": diversions, "var/lib/pacman/local/tool-1-1/mtree": mtree} {
			require.NoError(t, os.WriteFile(filepath.Join(h.Root(), name), []byte(text), 0o644))
		}
		originals, err := ReadOriginals(t.Context(), h)
		if err != nil {
			return
		}
		for place, list := range originals {
			require.True(t, filepath.IsAbs(place) && place == filepath.Clean(place), place)
			_, err := Same(list, strings.NewReader("x"))
			require.NoError(t, err)
		}
	})
}
