//go:build linux

package distros

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// imageOf returns an image root with these files, and its path. Names of folders
// end in a slash.
func imageOf(t *testing.T, files map[string]string) (*host.Host, string) {
	t.Helper()
	h := hosttest.Root(t, files)
	return h, h.Root()
}

// stateOf returns the findings and the errors of the rules for package state.
func stateOf(t *testing.T, id string, h *host.Host) (found []string, unknown string) {
	t.Helper()
	d, err := ByID(id)
	require.NoError(t, err)
	items, err := scrub.Spec{Only: []string{"package-state"}}.Items(scrub.ToAudit, d.ScrubRules())
	require.NoError(t, err)
	for _, p := range plan.Make(t.Context(), h, items) {
		assert.Empty(t, p.Actions)
		for _, f := range p.Findings {
			found = append(found, f.Target+": "+f.Reason)
		}
		unknown += p.Error
	}
	return found, unknown
}

// Half-installed packages are found in the databases of dpkg, pacman and yum.
func TestHalfInstalledPackagesAreFound(t *testing.T) {
	const fine = "Package: fine\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n\n" +
		"Package: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\n\n"
	texts := strings.NewReplacer("{{fine}}", fine, "{{libc6}}\n", strings.ReplaceAll(fine, "fine", "libc6"))
	var cases map[string]struct {
		Distro, Unknown string
		Files           map[string]string
		Found           []string
	}
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/state.yaml")), &cases))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir()) // so that no command can run
			for file, text := range c.Files {
				c.Files[file] = texts.Replace(text)
			}
			h, _ := imageOf(t, c.Files)
			found, unknown := stateOf(t, c.Distro, h)
			assert.Equal(t, c.Found, found)
			assert.Equal(t, c.Unknown, unknown)
		})
	}
}

// A package database file of more than 32 MiB is an error.
func TestAHugePackageDatabaseIsAnError(t *testing.T) {
	h, root := imageOf(t, map[string]string{"var/lib/dpkg/status": ""})
	require.NoError(t, os.Truncate(filepath.Join(root, "var/lib/dpkg/status"), 32<<20+1))
	_, unknown := stateOf(t, "debian", h)
	assert.Equal(t, "apt-state: reading the state of packages: read /var/lib/dpkg/status: larger than 32 MiB", unknown)
}

// Several versions of a kernel are usual. Of another package, they are left by an
// interrupted transaction.
func TestDuplicateVersionsAreFindings(t *testing.T) {
	var all []packages.RPM
	for _, p := range [][]string{
		{"runc", "x86_64", "2:1.2-1", "runc"}, {"runc", "x86_64", "2:1.3-1", "runc"}, {"kernel-core", "x86_64", "6.1", "x"}, {"kernel-core", "x86_64", "6.2", "x"},
		{"glibc", "x86_64", "1", "x"}, {"glibc", "i686", "1", "x"}, {"nvidia", "x86_64", "1", "installonlypkg(kernel-module)"}, {"nvidia", "x86_64", "2", "installonlypkg(kernel-module)"},
		{"kmod", "x86_64", "1", "multiversion(kernel)"}, {"kmod", "x86_64", "2", "multiversion(kernel)"}, {"gpg-pubkey", "", "a", "x"}, {"gpg-pubkey", "", "b", "x"},
	} {
		all = append(all, packages.RPM{Name: p[0], Arch: p[1], Version: p[2], Provides: p[3:]})
	}
	var d scrub.Draft
	duplicates(&d, all, `run "dnf remove --duplicates"`)
	assert.Equal(t, plan.Answer{Findings: []plan.Finding{{Target: "runc.x86_64",
		Reason: "rpm has the versions 2:1.2-1 and 2:1.3-1, " +
			`so an installation was interrupted: run "dnf remove --duplicates"`}}}, d.Answer)
}

// The policy file of a killed agent is removed. Any other policy stays.
func TestOnlyEksnodesPolicyIsRemoved(t *testing.T) {
	for text, goes := range map[string]bool{
		policy:                  true,
		"#!/bin/sh\nexit 101\n": false, policy + "exit 0\n": false, strings.Replace(policy, "101", "104", 1): false, "": false, "# eksnode\nexit 101\n": false,
	} {
		for _, id := range []string{"debian", "ubuntu"} {
			h, root := imageOf(t, map[string]string{"etc/passwd": "", "usr/sbin/policy-rc.d": text})
			d, err := ByID(id)
			require.NoError(t, err)
			items, err := scrub.Spec{}.Items(scrub.ToScrub, d.ScrubRules())
			require.NoError(t, err)
			_, err = plan.Apply(t.Context(), h, items, nil)
			require.NoError(t, err)
			if goes {
				assert.NoFileExists(t, filepath.Join(root, "usr/sbin/policy-rc.d"))
				continue
			}
			assert.Equal(t, text, testkit.Content(t, filepath.Join(root, "usr/sbin/policy-rc.d")))
		}
	}
}

// eksnode never makes policy-rc.d a link. So a link and its target stay.
func TestALinkToAPolicyStays(t *testing.T) {
	h, root := imageOf(t, map[string]string{"opt/policy": policy, "usr/sbin/": ""})
	require.NoError(t, os.Symlink("/opt/policy", filepath.Join(root, "usr/sbin/policy-rc.d")))
	d := scrub.Draft{Host: h}
	servicePolicy().Plan(&d, nil)
	require.NoError(t, d.Err)
	assert.Empty(t, d.Answer)
}

// FuzzPackageState reads any text as package databases.
func FuzzPackageState(f *testing.F) {
	f.Add("Package: a\nStatus: install ok half-configured\n\nPackage: b\nStatus: install ok installed\n")
	f.Add("%NAME%\nrunc\n\n%VERSION%\n1.3-1\n")
	f.Fuzz(func(t *testing.T, text string) {
		dpkgRecords(text, map[dpkgPackage]dpkgEntry{})
		packages.PacmanFields(text)
	})
}
