package distros

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// These tests run Debian's apt on a copy of this machine, from a repository that
// they build.

const aptRepository = "/srv/repository"

// deb is a package to build. Its postinst calls the policy, as a service's
// postinst does.
type deb struct {
	name, version, extra, postinst string
	script                         string // script that contains postinst (default: "postinst")
	size                           int    // bytes of a file below /etc/NAME.d
}

// onlyRepository makes the packages the only ones in apt's lists; options go into
// the brackets of sources.list(5).
func onlyRepository(t *testing.T, h *host.Host, options string, debs ...deb) {
	t.Helper()
	require.NoError(t, os.RemoveAll("/etc/apt/sources.list.d"))
	require.NoError(t, os.RemoveAll("/var/lib/apt/lists"))
	require.NoError(t, os.RemoveAll(aptRepository))
	require.NoError(t, os.MkdirAll(aptRepository, 0o755))
	var index strings.Builder
	for _, d := range debs {
		index.WriteString(d.build(t, h))
	}
	require.NoError(t, os.WriteFile(filepath.Join(aptRepository, "Packages"), []byte(index.String()), 0o644))
	source := fmt.Sprintf("deb %s file:%s ./\n", options, aptRepository)
	require.NoError(t, os.WriteFile("/etc/apt/sources.list", []byte(source), 0o644))
}

func (d deb) build(t *testing.T, h *host.Host) string {
	t.Helper()
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: made for a test\n%s", d.name, d.version, d.extra)
	tree := filepath.Join(t.TempDir(), d.name)
	testkit.Write(t, filepath.Join(tree, "DEBIAN/control"), control)
	if d.postinst != "" {
		require.NoError(t, os.WriteFile(filepath.Join(tree, "DEBIAN", cmp.Or(d.script, "postinst")), []byte("#!/bin/sh\n"+d.postinst), 0o755))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(tree, "etc", d.name+".d"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(tree, "etc", d.name+".d", "large"), bytes.Repeat([]byte("x"), d.size), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(tree, "etc", d.name+".conf"), []byte(d.version), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(tree, "DEBIAN/conffiles"), []byte("/etc/"+d.name+".conf\n"), 0o644))
	file := d.name + "_" + d.version + ".deb"
	run(t, h, "dpkg-deb", "--root-owner-group", "--build", tree, filepath.Join(aptRepository, file))
	data := testkit.Content(t, filepath.Join(aptRepository, file))
	return fmt.Sprintf("%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", control, file, len(data), sha256.Sum256([]byte(data)))
}

// signer is a GnuPG key pair in a separate home folder.
type signer struct{ name, home, public string }

func newSigner(t *testing.T, h *host.Host, name string) signer {
	t.Helper()
	s := signer{name: name, home: "/srv/gnupg-" + name}
	s.public = s.home + "/public.asc"
	require.NoError(t, os.MkdirAll(s.home, 0o700))
	withoutAgent(t, s.home)
	run(t, h, "gpg", "--homedir", s.home, "--batch", "--pinentry-mode", "loopback", "--passphrase", "",
		"--quick-generate-key", name, "rsa2048", "sign", "never")
	run(t, h, "gpg", "--homedir", s.home, "--batch", "--armor", "--output", s.public, "--export", name)
	return s
}

// withoutAgent stops GnuPG's agent at the test's end. Otherwise the agent would
// outlive the copy of the machine.
func withoutAgent(t *testing.T, home string) {
	t.Helper()
	t.Cleanup(func() {
		out, err := exec.Command("gpgconf", "--homedir", home, "--kill", "gpg-agent").CombinedOutput()
		assert.NoError(t, err, "%s", out)
	})
}

func (s signer) signApt(t *testing.T, h *host.Host) {
	t.Helper()
	index := testkit.Content(t, filepath.Join(aptRepository, "Packages"))
	release := filepath.Join(aptRepository, "Release")
	require.NoError(t, os.WriteFile(release, fmt.Appendf(nil, "Date: %s\nSHA256:\n %x %d Packages\n",
		time.Now().UTC().Format(time.RFC1123), sha256.Sum256([]byte(index)), len(index)), 0o644))
	run(t, h, "gpg", "--homedir", s.home, "--batch", "--yes", "--output", filepath.Join(aptRepository, "InRelease"), "--clearsign", release)
}

func run(t *testing.T, h *host.Host, argv ...string) string {
	t.Helper()
	out, err := h.Run(t.Context(), host.Command{Argv: argv})
	require.NoError(t, err)
	return string(out)
}

func versionsOf(t *testing.T, h *host.Host, names ...string) map[string]string {
	t.Helper()
	have, err := APT().Installed(t.Context(), h, names)
	require.NoError(t, err)
	return have
}

func TestAptStartsNoServices(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		require.NoError(t, h.Files.Remove(policyPath))
		onlyRepository(t, h, "[trusted=yes]", deb{name: "eksnode-service", version: "4.5",
			postinst: "/usr/sbin/policy-rc.d containerd start; echo $? >/policy-says\n"})
		require.NoError(t, APT().Refresh(t.Context(), h))
		require.NoError(t, APT().Install(t.Context(), h, []string{"eksnode-service"}))
		assert.Equal(t, "101\n", testkit.Content(t, "/policy-says"), "the policy must forbid services to start")
		exists, err := h.Exists(policyPath)
		require.NoError(t, err)
		assert.False(t, exists, "the policy must be removed after the installation")
	})
}

func TestAptCompletesInterruptedDependencies(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		require.NoError(t, os.WriteFile(policyPath, []byte(policy), 0o755))
		onlyRepository(t, h, "[trusted=yes]", deb{name: "eksnode-base", version: "1"}, deb{name: "eksnode-more", version: "1", extra: "Depends: eksnode-base\n"})
		run(t, h, "dpkg", "--unpack", aptRepository+"/eksnode-base_1.deb")
		// A journal that a killed dpkg had not yet merged into its database. apt
		// refuses to work with such a journal.
		require.NoError(t, os.WriteFile("/var/lib/dpkg/updates/0000", []byte(run(t, h, "dpkg-query", "--status", "eksnode-base")), 0o644))
		assert.Empty(t, versionsOf(t, h, "eksnode-base"), "an unpacked package must not count as installed")
		left, err := APT().Leftover(h)
		require.NoError(t, err)
		assert.Empty(t, left, "the policy must stay while the killed run's dpkg may still run")

		require.NoError(t, APT().Refresh(t.Context(), h))
		require.NoError(t, APT().Install(t.Context(), h, []string{"eksnode-more"}))
		assert.Len(t, versionsOf(t, h, "eksnode-base", "eksnode-more"), 2)
		left, err = APT().Leftover(h)
		require.NoError(t, err)
		assert.Empty(t, left)
		require.NoError(t, os.WriteFile(policyPath, []byte(policy), 0o755))
		left, err = APT().Leftover(h)
		require.NoError(t, err)
		assert.Equal(t, []string{policyPath}, left)
	})
}

// dpkg was killed while it unpacked a dependency. Packages that need the
// dependency can be configured only after apt unpacks the dependency again.
func TestAptUnpacksHalfInstalledDependenciesAgain(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		onlyRepository(t, h, "[trusted=yes]", deb{name: "eksnode-base", version: "1"}, deb{name: "eksnode-more", version: "1", extra: "Depends: eksnode-base\n"})
		require.NoError(t, APT().Refresh(t.Context(), h))
		run(t, h, "dpkg", "--unpack", aptRepository+"/eksnode-base_1.deb", aptRepository+"/eksnode-more_1.deb")
		status := testkit.Content(t, dpkgStatus)
		half := strings.Replace(status, "Package: eksnode-base\nStatus: install ok unpacked\n",
			"Package: eksnode-base\nStatus: install reinstreq half-installed\n", 1)
		require.NotEqual(t, status, half)
		require.NoError(t, os.WriteFile(dpkgStatus, []byte(half), 0o644))
		require.NoError(t, APT().Finish(t.Context(), h))
		assert.Len(t, versionsOf(t, h, "eksnode-base", "eksnode-more"), 2)
		assert.Equal(t, "eksnode-base\n", run(t, h, "apt-mark", "showauto", "eksnode-base"))
	})
}

// An index of all packages has some 50 MB on Debian, and apt would write it after each change.
func TestAptWritesNoIndexOfAllPackages(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		const index = "/var/cache/apt/pkgcache.bin"
		require.NoError(t, os.RemoveAll(index))
		onlyRepository(t, h, "[trusted=yes]", deb{name: "eksnode-base", version: "1"})
		require.NoError(t, APT().Refresh(t.Context(), h))
		require.NoError(t, APT().Install(t.Context(), h, []string{"eksnode-base"}))
		require.NoError(t, APT().Hold(t.Context(), h, []string{"eksnode-base"}))
		assert.NoFileExists(t, index)
	})
}

func TestAptKeepsEditedConfigurationAndOwnPolicy(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		own := "#!/bin/sh\nexit 0\n"
		require.NoError(t, os.WriteFile(policyPath, []byte(own), 0o755))
		onlyRepository(t, h, "[trusted=yes]", deb{name: "eksnode-base", version: "1"})
		require.NoError(t, APT().Refresh(t.Context(), h))
		require.NoError(t, APT().Install(t.Context(), h, []string{"eksnode-base"}))
		require.NoError(t, os.WriteFile("/etc/eksnode-base.conf", []byte("mine"), 0o644))

		onlyRepository(t, h, "[trusted=yes]", deb{name: "eksnode-base", version: "2"})
		require.NoError(t, APT().Refresh(t.Context(), h))
		require.NoError(t, APT().Install(t.Context(), h, []string{"eksnode-base"}))
		assert.Equal(t, "2", versionsOf(t, h, "eksnode-base")["eksnode-base"])
		assert.Equal(t, "mine", testkit.Content(t, "/etc/eksnode-base.conf"))
		assert.Equal(t, own, testkit.Content(t, policyPath))
	})
}

func TestAptFailuresAreExplained(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		onlyRepository(t, h, "[trusted=yes]",
			deb{name: "eksnode-broken", version: "1", extra: "Depends: eksnode-absent\n"},
			deb{name: "eksnode-fails", version: "1", postinst: "echo no luck >&2; exit 7\n"})
		require.NoError(t, APT().Refresh(t.Context(), h))
		err := APT().Install(t.Context(), h, []string{"eksnode-broken"})
		require.ErrorContains(t, err, "Depends: eksnode-absent but it is not installable")
		err = APT().Install(t.Context(), h, []string{"eksnode-fails"})
		require.ErrorContains(t, err, "no luck")
		assert.Empty(t, versionsOf(t, h, "eksnode-fails"), "a half-configured package must not count as installed")
	})
}

// hold takes a lock with fcntl(2), as apt does. The lock belongs to this process,
// so processes that the test starts find it locked.
func hold(t *testing.T, name string) (release func()) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o640)
	require.NoError(t, err)
	require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	return func() { _ = f.Close() }
}

func TestAptWaitsForLocks(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		onlyRepository(t, h, "[trusted=yes]", deb{name: "eksnode-base", version: "1"})
		require.NoError(t, APT().Refresh(t.Context(), h))
		impatient := newApt(0)
		for _, lock := range []string{"/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock"} {
			release := hold(t, lock)
			require.ErrorContains(t, impatient.Install(t.Context(), h, []string{"eksnode-base"}), "another package manager is still running", lock)
			release()
		}
		release := hold(t, "/var/lib/apt/lists/lock")
		require.ErrorContains(t, impatient.Refresh(t.Context(), h), "another package manager is still running")
		// With a timeout, apt continues as soon as the lock is released.
		done := make(chan error, 1)
		go func() { done <- newApt(time.Minute).Refresh(t.Context(), h) }()
		release()
		require.NoError(t, <-done)
		require.NoError(t, impatient.Install(t.Context(), h, []string{"eksnode-base"}))
	})
}

func TestAptOnFullAndReadOnlyFileSystems(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		onlyRepository(t, h, "[trusted=yes]", deb{name: "eksnode-base", version: "1", size: 1 << 20})
		require.NoError(t, APT().Refresh(t.Context(), h))

		require.NoError(t, os.Mkdir("/etc/eksnode-base.d", 0o755))
		require.NoError(t, unix.Mount("tmpfs", "/etc/eksnode-base.d", "tmpfs", 0, "size=64k"))
		err := APT().Install(t.Context(), h, []string{"eksnode-base"})
		require.ErrorContains(t, err, "installing packages: the disk is full; free some space or enlarge it: apt-get install")

		require.NoError(t, unix.Mount("", "/etc/eksnode-base.d", "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		err = APT().Install(t.Context(), h, []string{"eksnode-base"})
		require.ErrorContains(t, err, "installing packages: the file system is read-only; remount it for writing, or choose a base image whose root can be written: apt-get install")
		assert.Empty(t, versionsOf(t, h, "eksnode-base"))

		require.NoError(t, unix.Unmount("/etc/eksnode-base.d", 0))
		require.NoError(t, APT().Install(t.Context(), h, []string{"eksnode-base"}), "the next run must complete the installation")
	})
}

func TestAptReadsTheDatabaseOfAnImageRoot(t *testing.T) {
	h := hosttest.Root(t, map[string]string{"var/lib/dpkg/status": `Package: containerd
Status: install ok installed
Architecture: amd64
Version: 1.6.20~ds1-1+deb12u1
Provides: containerd.io, container-runtime (= 1.6)
Description: a runtime
 Version: 0 is only text here
Conffiles:
 /etc/containerd/config.toml 0123

Package: runc
Status: install ok half-configured
Version: 1.1.5

Package: socat
Status: deinstall ok config-files
Version: 1.7

Package: held
Status: hold ok installed
Version: 2:1
`})
	assert.Equal(t, map[string]string{"containerd": "1.6.20~ds1-1+deb12u1", "container-runtime": "1.6.20~ds1-1+deb12u1", "held": "2:1"},
		versionsOf(t, h, "containerd", "container-runtime", "runc", "socat", "held", "absent"))
	assert.Empty(t, versionsOf(t, hosttest.Root(t, nil), "containerd"), "an image root without a database has no packages")

	_, err := h.Files.Stat("/usr/sbin/policy-rc.d")
	require.Error(t, err)
	require.ErrorIs(t, APT().Refresh(t.Context(), h), host.ErrMountedRoot)
	require.ErrorIs(t, APT().Install(t.Context(), h, []string{"runc"}), host.ErrMountedRoot)
	_, err = h.Files.Stat("/usr/sbin/policy-rc.d")
	require.Error(t, err, "a refused installation must not leave the policy behind")
}

// A repository with an invalid signature is refused, and no package is installed
// from it.
func TestAptChecksSignatures(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		onlyRepository(t, h, "", deb{name: "eksnode-base", version: "1"})
		require.NoError(t, os.WriteFile(filepath.Join(aptRepository, "InRelease"), []byte(
			"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nOrigin: nobody\n-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n"), 0o644))
		require.ErrorContains(t, APT().Refresh(t.Context(), h), "refreshing the package lists: the signature of the repository file:/srv/repository ./ could not be verified: apt-get update")
		require.Error(t, APT().Install(t.Context(), h, []string{"eksnode-base"}))
		assert.Empty(t, versionsOf(t, h, "eksnode-base"))
	})
}
