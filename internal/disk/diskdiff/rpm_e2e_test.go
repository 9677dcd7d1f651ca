//go:build e2e && linux

package diskdiff_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskdiff"
)

// rpms builds packages, and returns the folder with them.
func rpms(t *testing.T, versions map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, version := range versions {
		spec := filepath.Join(folder, name+".spec")
		require.NoError(t, os.WriteFile(spec, []byte(fmt.Sprintf(`Name: %s
Epoch: 1
Version: %s
Release: 1
Summary: made for a test
License: none
BuildArch: noarch
%%description
made for a test
%%install
mkdir -p %%{buildroot}/opt/%[1]s
echo %[2]s >%%{buildroot}/opt/%[1]s/file
%%files
/opt/%[1]s
`, name, version)), 0o644))
		sh(t, `rpmbuild -bb --quiet --define "_rpmdir $1" --define "_topdir $1/top" "$2"`, folder, spec)
	}
	return folder
}

func rpmRoot(t *testing.T, versions map[string]string) string {
	t.Helper()
	root := tree(t, map[string]string{"opt/none": ""})
	sh(t, `mkdir -p "$1/var/lib/rpm"; rpm --root "$1" --dbpath /var/lib/rpm --install --nodeps --force-debian "$2"/noarch/*.rpm`, root, rpms(t, versions))
	return root
}

func TestPackagesOfRPM(t *testing.T) {
	before := image(t, "xfs", rpmRoot(t, map[string]string{"same": "1", "upgraded": "1", "gone": "1"}))
	root := rpmRoot(t, map[string]string{"same": "1", "upgraded": "2", "new": "3"})
	hosttest.Lay(t, root, map[string]string{"opt/same/file": "edited\n", "opt/same/extra": ""})
	after := image(t, "xfs", root)
	r := compared(t, before, after)
	found := map[string][2]string{}
	for _, p := range r.Packages {
		versions := [2]string{}
		for n, v := range []*string{p.Before, p.After} {
			if v != nil {
				versions[n] = *v
			}
		}
		found[fmt.Sprintf("%s %d", p.Name, p.Files)] = versions
	}
	require.Equal(t, map[string][2]string{"gone 2": {"1:1-1"}, "new 2": {"", "1:3-1"}, "upgraded 1": {"1:1-1", "1:2-1"}}, found)
	groups := map[string]string{}
	for _, f := range r.Files {
		groups[f.Path] = f.Group
	}
	for path, want := range map[string]string{
		"/opt/upgraded/file": diskdiff.OfChangedPackage, "/opt/gone": diskdiff.OfChangedPackage, "/opt/same/file": diskdiff.OfSamePackage, "/opt/same/extra": diskdiff.OfNoPackage,
		"/var/lib/rpm/rpmdb.sqlite": diskdiff.OfNoPackage,
	} {
		require.Equal(t, want, groups[path], path)
	}
}
