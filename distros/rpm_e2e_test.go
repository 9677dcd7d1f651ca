//go:build e2e

package distros

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// unverified matches the messages of dnf, yum, zypper and pacman about unsigned data.
const unverified = "signature could not be verified"

func buildRpm(t *testing.T, h *host.Host, p pkg) {
	t.Helper()
	var more strings.Builder
	for tag, value := range map[string]string{"Requires": p.requires, "Conflicts": p.conflicts, "Recommends": p.recommends} {
		if value != "" {
			fmt.Fprintf(&more, "%s: %s\n", tag, value)
		}
	}
	if p.provides != "" {
		fmt.Fprintf(&more, "Provides: %s = 7\n", p.provides)
	}
	spec := fmt.Sprintf("Name: %s\nVersion: %s\nRelease: 1\nSummary: made for a test\nLicense: none\nBuildArch: noarch\n%s\n%%description\nmade for a test\n%%install\nmkdir -p %%{buildroot}/opt\ntouch %%{buildroot}/opt/%s\n%%files\n/opt/%s\n", p.name, p.version, more.String(), p.name, p.name)
	file := filepath.Join(t.TempDir(), p.name+".spec")
	require.NoError(t, os.WriteFile(file, []byte(spec), 0o644))
	run(t, h, "rpmbuild", "-bb", "--quiet", "--define", "_rpmdir "+rpmRepository, "--define", "_topdir "+t.TempDir(), file)
}

const rpmRepository = "/srv/rpms"

// withRpm moves rpm's database to the usual path. Debian's rpm keeps root's
// database in the home folder.
func withRpm(t *testing.T, h *host.Host) {
	t.Helper()
	testkit.Write(t, "/etc/rpm/macros", "%_dbpath /var/lib/rpm\n")
	run(t, h, "rpm", "--initdb")
}

// publishRpms makes this repository of rpm packages the machine's only one.
func publishRpms(t *testing.T, h *host.Host, address string, signed bool) {
	t.Helper()
	if address == "" {
		address = "file://" + rpmRepository
	}
	require.NoError(t, os.RemoveAll("/etc/yum.repos.d"))
	require.NoError(t, os.MkdirAll("/etc/yum.repos.d", 0o755))
	check := map[bool]int{true: 1}[signed]
	repo := fmt.Sprintf("[made-here]\nname=made here\nbaseurl=%s\nenabled=1\ngpgcheck=%d\n", address, check)
	require.NoError(t, os.WriteFile("/etc/yum.repos.d/made-here.repo", []byte(repo), 0o644))
	require.NoError(t, os.MkdirAll(rpmRepository, 0o755))
	run(t, h, "createrepo_c", "--quiet", rpmRepository)
}

// signRpms signs every package. dnf and yum trust the first key that signRpms is
// called with.
func signRpms(t *testing.T, h *host.Host, key signer, spoil bool) {
	t.Helper()
	const pristine = "/srv/pristine" // unsigned copies: spoiled packages cannot be signed again
	if _, err := os.Stat(pristine); err != nil {
		run(t, h, "cp", "-a", rpmRepository, pristine)
	}
	require.NoError(t, os.RemoveAll(rpmRepository))
	run(t, h, "cp", "-a", pristine, rpmRepository)
	packages := testkit.Glob(t, rpmRepository+"/*/*.rpm")
	require.NotEmpty(t, packages)
	for _, p := range packages {
		run(t, h, "rpmsign", "--define", "__gpg /usr/bin/gpg", "--define", "_gpg_path "+key.home, "--define", "_gpg_name "+key.name, "--resign", p)
		if spoil {
			spoiled(t, p)
		}
	}
	const trusted = "/srv/trusted.asc"
	if _, err := os.Stat(trusted); err != nil {
		run(t, h, "cp", key.public, trusted)
	}
	publishRpms(t, h, "", true)
	repo := testkit.Content(t, "/etc/yum.repos.d/made-here.repo")
	require.NoError(t, os.WriteFile("/etc/yum.repos.d/made-here.repo", append([]byte(repo), "gpgkey=file://"+trusted+"\n"...), 0o644))
	require.NoError(t, os.RemoveAll("/var/cache/dnf"))
}

func additionalRpms(t *testing.T, h *host.Host, key signer) string {
	t.Helper()
	signRpms(t, h, key, false)
	require.NoError(t, os.RemoveAll("/etc/yum.repos.d/made-here.repo"))
	return "[extra]\nname=extra\nbaseurl=file://" + rpmRepository + "\nenabled=1\n"
}

// lockDnf writes the lock file of another running dnf.
func lockDnf(t *testing.T) func() {
	const lock = "/var/cache/dnf/metadata_lock.pid"
	testkit.Write(t, lock, fmt.Sprint(os.Getpid()))
	return func() { require.NoError(t, os.Remove(lock)) }
}

func TestDnfMeetsTheContract(t *testing.T) {
	contract(t, []string{"dnf", "rpm", "createrepo-c"}, func(t *testing.T, h *host.Host) workshop {
		withRpm(t, h)
		return workshop{
			pm: DNF(), impatient: newDnf(0), build: buildRpm, publish: publishRpms, release: "-1", cache: "/var/cache/dnf", folder: rpmRepository, unsigned: unverified,
			sign: signRpms, lock: lockDnf, additional: additionalRpms,
			upgrade: []string{"dnf", "--assumeyes", "--refresh", "upgrade"},
		}
	})
}

// Yum has its own commands and configuration. Debian has no yum, so dnf runs under
// the name yum. Weak dependencies are switched off, because yum has none.
func TestYumMeetsTheContract(t *testing.T) {
	contract(t, []string{"dnf", "rpm", "createrepo-c"}, func(t *testing.T, h *host.Host) workshop {
		withRpm(t, h)
		dnf, err := exec.LookPath("dnf")
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll("/usr/bin/yum"))
		require.NoError(t, os.Symlink(dnf, "/usr/bin/yum"))
		require.NoError(t, os.RemoveAll("/etc/dnf/dnf.conf"))
		require.NoError(t, os.MkdirAll("/etc/dnf", 0o755))
		require.NoError(t, os.Symlink("/etc/yum.conf", "/etc/dnf/dnf.conf"))
		require.NoError(t, os.WriteFile("/etc/yum.conf", []byte("[main]\ninstall_weak_deps=0\n"), 0o644))
		return workshop{
			pm: Yum(), impatient: newYum(0), build: buildRpm, publish: publishRpms, release: "-1", cache: "/var/cache/dnf", folder: rpmRepository, unsigned: unverified,
			sign: signRpms, lock: lockDnf, additional: additionalRpms,
			upgrade: []string{"yum", "--assumeyes", "--refresh", "update"},
		}
	})
}

// signIndex signs the index of the repository: zypper verifies its signature, and reads the
// checksums of packages from the signed index.
func signIndex(t *testing.T, h *host.Host, key signer, spoil bool) {
	t.Helper()
	run(t, h, "createrepo_c", "--quiet", rpmRepository)
	index := rpmRepository + "/repodata/repomd.xml"
	key.detached(t, h, index, index+".asc", "--armor")
	if spoil {
		require.NoError(t, os.WriteFile(index, append([]byte(testkit.Content(t, index)), '\n'), 0o644))
	}
	if key.name == "trusted" {
		run(t, h, "rpm", "--import", key.public)
	}
	repo := fmt.Sprintf("[made-here]\nname=made here\nbaseurl=file://%s\nenabled=1\ngpgcheck=1\n", rpmRepository)
	require.NoError(t, os.WriteFile("/etc/zypp/repos.d/made-here.repo", []byte(repo), 0o644))
}

func TestZypperMeetsTheContract(t *testing.T) {
	contract(t, []string{"zypper", "rpm", "createrepo-c"}, func(t *testing.T, h *host.Host) workshop {
		withRpm(t, h)
		impatient := newZypper()
		impatient.tool.patience = 0
		return workshop{
			pm: Zypper(), impatient: impatient, build: buildRpm, release: "-1", cache: "/var/cache/zypp", folder: rpmRepository, unsigned: unverified,
			publish: func(t *testing.T, h *host.Host, address string, signed bool) {
				publishRpms(t, h, address, signed)
				require.NoError(t, os.RemoveAll("/etc/zypp/repos.d"))
				require.NoError(t, os.MkdirAll("/etc/zypp", 0o755))
				require.NoError(t, os.Rename("/etc/yum.repos.d", "/etc/zypp/repos.d"))
			},
			sign: signIndex,
			additional: func(t *testing.T, h *host.Host, key signer) string {
				signIndex(t, h, key, false)
				require.NoError(t, os.RemoveAll("/etc/zypp/repos.d/made-here.repo"))
				return "[extra]\nname=extra\nbaseurl=file://" + rpmRepository + "\nenabled=1\n"
			},
			upgrade: []string{"zypper", "--non-interactive", "update"},
			lock: func(t *testing.T) func() {
				require.NoError(t, os.WriteFile("/run/zypp.pid", []byte(fmt.Sprintln(os.Getpid())), 0o644))
				return func() { require.NoError(t, os.Remove("/run/zypp.pid")) }
			},
		}
	})
}
