//go:build linux

package packages

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInstalledPackagesHaveTheNamesOfOwners(t *testing.T) {
	h, _ := imageOf(t, map[string]string{
		"var/lib/dpkg/status": "Package: tool\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:2.0-1\nDescription: x\n Version: 9\n\n" +
			"Package: libc6\nStatus: install ok installed\nMulti-Arch: same\nArchitecture: amd64\nVersion: 2.36\n\n" +
			"Package: libc6\nStatus: hold ok installed\nMulti-Arch: same\nArchitecture: arm64\nVersion: 2.36\n\n" +
			"Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\nPackage: half\nStatus: install ok half-configured\nVersion: 1\n",
		"var/lib/dpkg/info/tool.list":        "/usr\n/usr/bin\n/usr/bin/tool\n/srv/own\n",
		"var/lib/dpkg/info/libc6:amd64.list": "/usr\n/usr/lib\n/usr/lib/x\n",
		"var/lib/dpkg/info/libc6:arm64.list": "/usr\n/usr/lib\n",
		"var/lib/pacman/local/a-b-1-2/desc":  "%NAME%\na-b\n\n%VERSION%\n1-2\n\n%DESC%\n%NAME%\n",
		"var/lib/pacman/local/a-b-1-2/files": "%FILES%\nopt/\nopt/a\n",
		"var/lib/pacman/local/ALPM_DB":       "9\n",
	})
	installed, err := ReadInstalled(t.Context(), h)
	require.NoError(t, err)
	assert.Equal(t, Installed{
		"tool": {"tool", "1:2.0-1"}, "libc6:amd64": {"libc6:amd64", "2.36"}, "libc6:arm64": {"libc6:arm64", "2.36"}, "a-b-1-2": {"a-b", "1-2"},
	}, installed)
	owners, err := ReadOwners(t.Context(), h)
	require.NoError(t, err)
	for place, want := range map[string]string{
		"/usr": "", "/usr/lib": "", "/usr/bin": "tool", "/usr/bin/tool": "tool", "/usr/lib/x": "libc6:amd64", "/opt/a": "a-b-1-2", "/absent": "", "/": "",
	} {
		assert.Equal(t, want, owners.Of(place), place)
	}

	all := Installed{}
	all.add("kernel", "kernel", "6.2-1")
	all.add("kernel", "kernel", "6.1-1")
	all.add("kernel", "kernel", "6.2-1")
	assert.Equal(t, Installed{"kernel": {"kernel", "6.1-1, 6.2-1"}}, all)
}

// FuzzInstalled reads any text as the packages of dpkg and pacman.
func FuzzInstalled(f *testing.F) {
	f.Add("Package: tool\nStatus: install ok installed\nVersion: 1\n", "%NAME%\ntool\n\n%VERSION%\n1-1\n")
	f.Add("Package:\nStatus: x installed\n\n\n:\n", "%NAME%\n%NAME%")
	h, root := imageOf(f, map[string]string{"var/lib/dpkg/status": "", "var/lib/pacman/local/tool-1-1/desc": ""})
	f.Fuzz(func(t *testing.T, status, desc string) {
		for name, text := range map[string]string{"var/lib/dpkg/status": status, "var/lib/pacman/local/tool-1-1/desc": desc} {
			require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
		}
		all, err := ReadInstalled(t.Context(), h)
		require.NoError(t, err)
		require.Contains(t, all, "tool-1-1")
		require.NotContains(t, all, "")
	})
}
