//go:build linux

package packages

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func md5Of(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Checksums come from dpkg's lists and status, and from pacman's manifests.
// Diverted files are at their new place, and merged folders are resolved.
func TestOriginalsOfDpkgAndPacman(t *testing.T) {
	var mtree bytes.Buffer
	w := gzip.NewWriter(&mtree)
	_, err := w.Write([]byte("#mtree\n/set type=file uid=0\n./usr/bin/a\\040b time=1.0 size=3 sha256digest=" + sha256Of("one") + "\n./usr/share type=dir\n./etc/a.conf size=1 md5digest=x sha256digest=" + sha256Of("two") + "\n"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	h, root := imageOf(t, map[string]string{
		"usr/bin/tool": "", "usr/bin/view.vim": "",
		"var/lib/dpkg/info/tool:amd64.md5sums": md5Of("tool") + "  bin/tool\n" + md5Of("view") + "  usr/bin/view\nno checksum\nzz  usr/bin/damaged\n",
		"var/lib/dpkg/info/vim.md5sums":        md5Of("vim") + "  usr/bin/view\n",
		"var/lib/dpkg/diversions":              "/usr/bin/view\n/usr/bin/view.tool\nvim\n",
		"var/lib/dpkg/status":                  "Package: tool\nStatus: install ok installed\nConffiles:\n /etc/tool.conf " + md5Of("conf") + "\n /etc/old.conf " + md5Of("old") + " obsolete\n /etc/new newconffile\nDescription: x\n /etc/no.conf " + md5Of("no") + "\n",
		"var/lib/pacman/local/a-1-1/mtree":     mtree.String(),
		"var/lib/pacman/local/a-1-1/files":     "%FILES%\nusr/\nusr/bin/a b\n\n%BACKUP%\netc/a.conf\t0\n",
		"var/lib/pacman/local/b-1-1/files":     "%FILES%\nusr/\n",
	})
	require.NoError(t, os.Symlink("usr/bin", filepath.Join(root, "bin")))
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

	h, _ = imageOf(t, map[string]string{"usr/bin/tool": ""})
	originals, err = ReadOriginals(t.Context(), h)
	require.NoError(t, err)
	assert.Empty(t, originals, "a machine without a package manager")
}

func TestDamagedManifestsAreNamed(t *testing.T) {
	h, _ := imageOf(t, map[string]string{"var/lib/pacman/local/a-1-1/mtree": "\x1f\x8bno", "var/lib/pacman/local/a-1-1/files": ""})
	_, err := ReadOriginals(t.Context(), h)
	assert.EqualError(t, err, "reading pacman's checksums of a-1-1: unexpected EOF")
}

// FuzzOriginals reads any text as the checksums of dpkg and pacman.
func FuzzOriginals(f *testing.F) {
	f.Add(md5Of("")+"  usr/bin/tool\n", "Package: tool\nConffiles:\n /etc/x "+md5Of("")+"\n", "/a\n/b\nc\n", "./usr/bin/\\057x sha256digest="+sha256Of("")+"\n")
	f.Add("\x00  ../../x\n", "Conffiles:\n x y\n /\n", "\n\n\n", "\x1f\x8b")
	h, root := imageOf(f, map[string]string{"var/lib/dpkg/info/tool.md5sums": "", "var/lib/dpkg/status": "", "var/lib/dpkg/diversions": "", "var/lib/pacman/local/tool-1-1/mtree": "", "var/lib/pacman/local/tool-1-1/files": ""})
	f.Fuzz(func(t *testing.T, sums, status, diversions, mtree string) {
		for name, text := range map[string]string{"var/lib/dpkg/info/tool.md5sums": sums, "var/lib/dpkg/status": status, "var/lib/dpkg/diversions": diversions, "var/lib/pacman/local/tool-1-1/mtree": mtree} {
			require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
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
