//go:build e2e

package distros

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

const pacmanRepository = "/srv/pacman"

var published int

// buildPackage builds a package without makepkg, which refuses to run as root.
func buildPackage(t *testing.T, h *host.Host, p pkg) {
	t.Helper()
	require.NoError(t, os.MkdirAll(pacmanRepository, 0o755))
	tree := t.TempDir()
	version := p.version + "-1"
	info := fmt.Sprintf("pkgname = %s\npkgbase = %s\npkgver = %s\npkgdesc = made for a test\nurl = http://example.com\nbuilddate = 0\npackager = nobody\nsize = 0\narch = any\n", p.name, p.name, version)
	for _, field := range [][2]string{{"depend", p.requires}, {"provides", p.provides}, {"conflict", p.conflicts}, {"optdepend", p.recommends}} {
		if field[1] != "" {
			info += field[0] + " = " + field[1] + "\n"
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(tree, ".PKGINFO"), []byte(info), 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(tree, "opt"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(tree, "opt", p.name), nil, 0o644))
	file := filepath.Join(pacmanRepository, fmt.Sprintf("%s-%s-any.pkg.tar.gz", p.name, version))
	run(t, h, "tar", "-C", tree, "-czf", file, ".PKGINFO", "opt")
	run(t, h, "repo-add", "--quiet", filepath.Join(pacmanRepository, "here.db.tar.gz"), file)
}

// publishPackages makes this repository the machine's only one.
func publishPackages(t *testing.T, _ *host.Host, address string, signed bool) {
	t.Helper()
	if address == "" {
		address = "file://" + pacmanRepository
	}
	// Held packages stay held.
	text := testkit.Content(t, "/etc/pacman.conf")
	ignored := regexp.MustCompile(`(?m)^IgnorePkg.*\n`).FindString(text)
	level := map[bool]string{true: "Required", false: "Never"}[signed]
	conf := fmt.Sprintf("[options]\n%sArchitecture = auto\nSigLevel = %s\n[here]\nServer = %s\n", ignored, level, address)
	require.NoError(t, os.WriteFile("/etc/pacman.conf", []byte(conf), 0o644))
	// pacman compares the database's time in whole seconds, and two databases can
	// be published within one second.
	published++
	later := time.Now().Add(time.Duration(published) * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(pacmanRepository, "here.db.tar.gz"), later, later))
}

// signPackages signs every package, and indexes them again. pacman trusts only the
// key named trusted.
func signPackages(t *testing.T, h *host.Host, key signer, spoil bool) {
	t.Helper()
	packages := testkit.Glob(t, pacmanRepository+"/*.pkg.tar.gz")
	require.NotEmpty(t, packages)
	for _, p := range packages {
		require.NoError(t, os.RemoveAll(p+".sig"))
		key.detached(t, h, p, p+".sig")
		if spoil {
			spoiled(t, p)
		}
	}
	run(t, h, append([]string{"repo-add", "--quiet", filepath.Join(pacmanRepository, "here.db.tar.gz")}, packages...)...)
	if key.name == "trusted" && !spoil {
		run(t, h, "pacman-key", "--init")
		run(t, h, "pacman-key", "--add", key.public)
		run(t, h, "pacman-key", "--lsign-key", key.name)
		withoutAgent(t, "/etc/pacman.d/gnupg")
	}
	publishPackages(t, h, "", true)
	conf, err := os.ReadFile("/etc/pacman.conf")
	require.NoError(t, err)
	conf = regexp.MustCompile(`SigLevel = Required`).ReplaceAll(conf, []byte("SigLevel = Required DatabaseOptional"))
	require.NoError(t, os.WriteFile("/etc/pacman.conf", conf, 0o644))
	require.NoError(t, os.RemoveAll("/var/cache/pacman/pkg"))
	require.NoError(t, os.MkdirAll("/var/cache/pacman/pkg", 0o755))
}

func TestPacmanMeetsTheContract(t *testing.T) {
	contract(t, []string{"pacman-package-manager", "makepkg", "libarchive-tools", "zstd", "fakeroot"}, func(t *testing.T, _ *host.Host) workshop {
		require.NoError(t, os.MkdirAll("/var/lib/pacman/local", 0o755))
		impatient := newPacman()
		impatient.tool.patience = 0
		return workshop{
			pm: Pacman(), impatient: impatient, build: buildPackage, publish: publishPackages, release: "-1", cache: "/var/cache/pacman/pkg", folder: pacmanRepository, unsigned: unverified,
			sign: signPackages,
			additional: func(t *testing.T, h *host.Host, key signer) string {
				signPackages(t, h, key, false)
				withoutAgent(t, "/etc/pacman.d/gnupg")
				require.NoError(t, os.WriteFile("/etc/pacman.conf", []byte("[options]\nArchitecture = auto\n"), 0o644))
				return "[here]\nServer = file://" + pacmanRepository + "\n"
			},
			upgrade: []string{"pacman", "-Syu", "--noconfirm"},
			lock: func(t *testing.T) func() {
				release := hold(t, pacmanLock)
				return func() { release(); require.NoError(t, os.Remove(pacmanLock)) }
			},
		}
	})
}

// A lock file is leftover only if no process holds it.
func TestPacmanLockWithoutAHolderIsLeftover(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		release := hold(t, pacmanLock)
		left, err := Pacman().Leftover(h)
		require.NoError(t, err)
		assert.Empty(t, left)
		release()
		left, err = Pacman().Leftover(h)
		require.NoError(t, err)
		assert.Equal(t, []string{pacmanLock}, left)
	})
}

func (s signer) detached(t *testing.T, h *host.Host, file, signature string, more ...string) {
	t.Helper()
	run(t, h, append(append([]string{"gpg", "--homedir", s.home, "--batch", "--yes", "--output", signature}, more...),
		"--detach-sign", file)...)
}

// spoiled inverts a bit in the last byte of a file.
func spoiled(t *testing.T, file string) {
	t.Helper()
	text := []byte(testkit.Content(t, file))
	text[len(text)-1] ^= 1
	require.NoError(t, os.WriteFile(file, text, 0o644))
}
