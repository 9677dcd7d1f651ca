//go:build linux

package distros

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	const fine = "Package: fine\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n\nPackage: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\n\n"
	const configure = `run "dpkg --configure -a"`
	whole := map[string]string{"var/lib/pacman/local/ALPM_DB_VERSION": "9", "var/lib/pacman/local/runc-1.2-1/desc": "%NAME%\nrunc\n\n%VERSION%\n1.2-1\n", "var/lib/pacman/local/runc-1.2-1/files": "%FILES%\n"}
	for name, c := range map[string]struct {
		distro  string
		files   map[string]string
		found   []string
		unknown string
	}{
		"no database":   {distro: "debian"},
		"all installed": {distro: "debian", files: map[string]string{"var/lib/dpkg/status": fine, "var/lib/dpkg/updates/": "", "var/lib/dpkg/updates/tmp.i": "Package: fine\nStatus: install ok unpacked\n"}},
		"each state": {distro: "ubuntu", files: map[string]string{"var/lib/dpkg/status": fine +
			"Package: a\nStatus: install ok half-configured\n\nPackage: b\nStatus: install ok unpacked\n\nPackage: c\nStatus: install reinstreq half-installed\n\n" +
			"Package: d\nStatus: install ok triggers-pending\n\nPackage: e\nStatus: install ok triggers-awaited\n\nPackage: f\nStatus: hold reinstreq unpacked\n\nPackage: g\nStatus: install ok half-installed\nDescription: x\n Status: install ok installed\n"},
			found: []string{
				"a: dpkg left the package half-configured: " + configure, "b: dpkg left the package unpacked: " + configure,
				`c: dpkg left the package half-installed: run "apt-get install --reinstall c"`, "d: dpkg left the package triggers-pending: " + configure, "e: dpkg left the package triggers-awaited: " + configure,
				`f: dpkg left the package unpacked: run "apt-get install --reinstall f"`, `g: dpkg left the package half-installed: run "apt-get install --reinstall g"`,
			}},
		"two architectures": {distro: "debian", files: map[string]string{"var/lib/dpkg/status": "Package: libc6\nStatus: install ok half-configured\nArchitecture: i386\n\n" + strings.ReplaceAll(fine, "fine", "libc6")},
			found: []string{"libc6: dpkg left the package half-configured: " + configure}},
		"a journal": {distro: "debian", files: map[string]string{"var/lib/dpkg/status": fine, "var/lib/dpkg/updates/0000": "Package: fine\nStatus: install ok half-configured\nArchitecture: amd64\n", "var/lib/dpkg/updates/0001": "Package: new\nStatus: install ok unpacked\nArchitecture: amd64\n"},
			found: []string{"fine: dpkg left the package half-configured: " + configure, "new: dpkg left the package unpacked: " + configure, "/var/lib/dpkg/updates: dpkg was interrupted before it processed its journal: " + configure}},
		"a journal that ends installed": {distro: "debian", files: map[string]string{"var/lib/dpkg/status": fine + "Package: a\nStatus: install ok unpacked\nArchitecture: all\n", "var/lib/dpkg/updates/0003": "Package: a\nStatus: install ok installed\nArchitecture: all\n"},
			found: []string{"/var/lib/dpkg/updates: dpkg was interrupted before it processed its journal: " + configure}},
		"a name with control characters": {distro: "debian", files: map[string]string{"var/lib/dpkg/status": "Package: a\x1b[2J; rm\nStatus: install ok unpacked\n"},
			found: []string{`"a\x1b[2J; rm": dpkg left the package unpacked: ` + configure}},
		"an unknown state":    {distro: "debian", files: map[string]string{"var/lib/dpkg/status": "Package: a\nStatus: install ok broken\n"}, unknown: `apt-state: reading the state of packages: /var/lib/dpkg/status has a in the state "broken", which dpkg does not know`},
		"a missing status":    {distro: "debian", files: map[string]string{"var/lib/dpkg/info/a.list": "/.\n"}, unknown: "apt-state: reading the state of packages: /var/lib/dpkg/status is missing or empty; copy /var/lib/dpkg/status-old over it"},
		"an empty status":     {distro: "debian", files: map[string]string{"var/lib/dpkg/info/a.list": "/.\n", "var/lib/dpkg/status": ""}, unknown: "apt-state: reading the state of packages: /var/lib/dpkg/status is missing or empty; copy /var/lib/dpkg/status-old over it"},
		"a folder for a file": {distro: "debian", files: map[string]string{"var/lib/dpkg/status/": ""}, unknown: "apt-state: reading the state of packages: open /var/lib/dpkg/status: not a regular file"},

		"pacman's, whole": {distro: "arch", files: whole},
		"pacman's lock":   {distro: "arch", files: with(whole, "var/lib/pacman/db.lck", ""), found: []string{`/var/lib/pacman/db.lck: pacman was interrupted or is running: if no pacman runs, run "rm /var/lib/pacman/db.lck" and "pacman -Syu"`}},
		"no list of files": {distro: "arch", files: with(whole, "var/lib/pacman/local/cni-plugins-1-2/desc", "%NAME%\ncni-plugins\n\n%VERSION%\n1-2\n"),
			found: []string{`cni-plugins-1-2: pacman left the package half installed, without its files: run "pacman -S --overwrite '*' cni-plugins"`}},
		"a package without files": {distro: "arch", files: with(with(whole,
			"var/lib/pacman/local/base-3-2/desc", "%NAME%\nbase\n\n%VERSION%\n3-2\n"),
			"var/lib/pacman/local/base-3-2/files", "")},
		"an empty list of files": {distro: "arch", files: with(with(whole,
			"var/lib/pacman/local/base-3-2/desc", "%NAME%\nbase\n\n%VERSION%\n3-2\n\n%SIZE%\n4096\n"),
			"var/lib/pacman/local/base-3-2/files", ""),
			found: []string{"base-3-2: pacman left the package half installed, without its files: " +
				`run "pacman -S --overwrite '*' base"`}},
		"an empty entry": {distro: "arch", files: with(whole, "var/lib/pacman/local/cni-plugins-1-2/", ""),
			found: []string{`cni-plugins-1-2: pacman left the package half installed, without its desc: run "pacman -S --overwrite '*' cni-plugins"`}},
		"two versions": {distro: "arch", files: with(with(whole, "var/lib/pacman/local/runc-1.3-1/desc", "%NAME%\nrunc\n\n%VERSION%\n1.3-1\n"), "var/lib/pacman/local/runc-1.3-1/files", "%FILES%\n"),
			found: []string{`runc-1.3-1: pacman also has runc-1.2-1, so an upgrade was interrupted: remove the older folder from /var/lib/pacman/local and run "pacman -S runc"`}},

		"yum's journal": {distro: "amazonlinux2", files: map[string]string{"var/lib/yum/transaction-all.2026-01-01.00:00.00": "x", "var/lib/yum/uuid": "x"},
			found: []string{`/var/lib/yum/transaction-all.2026-01-01.00:00.00: yum was interrupted: run "yum-complete-transaction" of the package yum-utils`}},
		"rpm's damaged database, of dnf": {distro: "amazonlinux2023", files: map[string]string{"var/lib/rpm/rpmdb.sqlite": "x"},
			unknown: `dnf-state: reading the state of packages: reading the packages in /var/lib/rpm: the database is damaged: run "rpmdb --rebuilddb" on the machine`},
		"rpm's damaged database, of zypper": {distro: "sles", files: map[string]string{"usr/lib/sysimage/rpm/Packages.db": "x"},
			unknown: `zypper-state: reading the state of packages: reading the packages in /usr/lib/sysimage/rpm: the database is damaged: run "rpmdb --rebuilddb" on the machine`},
		"no package manager": {distro: "fedora"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir()) // so that no command can run
			h, _ := imageOf(t, c.files)
			found, unknown := stateOf(t, c.distro, h)
			assert.Equal(t, c.found, found)
			assert.Equal(t, c.unknown, unknown)
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

func with(files map[string]string, name, text string) map[string]string {
	files = maps.Clone(files)
	files[name] = text
	return files
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
