package shape

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
)

func TestPackagesAreDescribedForOtherManagers(t *testing.T) {
	p := described(fields("Package: conntrack\nVersion: 1:1.4.8~rc1+b2-1\nDescription: tracks connections\n more\nDepends: libc6 (>= 2.36), a:any | b\nProvides: c (= 1)\n"))
	assert.Equal(t, pkg{
		name: "conntrack", debian: "conntrack", version: "1.4.8.rc1.b2.1", summary: "tracks connections",
		depends: [][]string{{"libc6"}, {"a", "b"}}, provides: []string{"c"},
	}, p)
	assert.Equal(t, []string{"glibc", "other"}, p.needs(map[string]string{"libc6": "glibc", "b": "other", "c": "conntrack"}), "only what exists, by the distribution's names")
}

func TestSbinIsMergedIntoBin(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"usr/bin/a", "usr/sbin/b", "usr/lib/os-release"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o755))
	}
	require.NoError(t, os.Symlink("../bin/a", filepath.Join(root, "usr/sbin/a")))
	require.NoError(t, mergeBin(root))
	files, _, err := listed(root)
	require.NoError(t, err)
	assert.Equal(t, []string{"/usr/", "/usr/bin/", "/usr/bin/a", "/usr/bin/b", "/usr/lib/", "/usr/lib/os-release", "/usr/sbin"}, files)
	target, err := os.Readlink(filepath.Join(root, "usr/sbin"))
	require.NoError(t, err)
	assert.Equal(t, "bin", target)
}

func TestProofsOfShapes(t *testing.T) {
	shapes := map[string]bool{}
	for _, s := range All() {
		shapes[s.ID] = true
	}
	for _, d := range distros.All() {
		assert.Equal(t, d.Tested == distros.ShapeTested, shapes[d.ID], "%s: a distribution with a shape joins on it, and only such a distribution", d.ID)
	}
}
