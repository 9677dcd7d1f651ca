//go:build linux

package distros

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Downloads of the package managers are removed. Installed packages,
// configuration and databases stay.
func TestCachesAreRemovedAndPackagesStay(t *testing.T) {
	for id, c := range map[string]struct{ gone, stays []string }{
		"debian": {
			[]string{"var/lib/apt/lists/deb.debian.org_Packages", "var/lib/apt/lists/partial/x", "var/cache/apt/pkgcache.bin", "var/cache/apt/archives/runc_1.deb"},
			[]string{"var/lib/dpkg/status", "var/lib/apt/extended_states", "etc/apt/sources.list", "var/cache/apt/archives/keep.txt"},
		},
		"amazonlinux2023": {
			[]string{"var/cache/dnf/repo/x.rpm", "var/lib/dnf/history.sqlite", "var/lib/dnf/history.sqlite-wal"},
			[]string{"var/lib/rpm/rpmdb.sqlite", "etc/yum.repos.d/x.repo", "var/lib/dnf/modulefailsafe/x"},
		},
		"fedora": {
			[]string{"var/cache/libdnf5/x.rpm", "usr/lib/sysimage/libdnf5/transaction_history.sqlite", "usr/lib/sysimage/libdnf5/transaction_history.sqlite-wal"},
			[]string{"usr/lib/sysimage/libdnf5/packages.toml", "usr/lib/sysimage/rpm/rpmdb.sqlite"},
		},
		"sles": {
			[]string{"var/cache/zypp/raw/repo/x", "var/log/zypper.log", "var/log/zypp/history", "var/lib/zypp/AnonymousUniqueId"},
			[]string{"var/lib/rpm/rpmdb.sqlite", "etc/zypp/repos.d/x.repo", "etc/zypp/locks"},
		},
		"arch": {
			[]string{"var/cache/pacman/pkg/runc-1.pkg.tar.zst", "var/lib/pacman/sync/core.db", "etc/pacman.d/gnupg/private-keys-v1.d/A.key", "etc/pacman.d/gnupg/openpgp-revocs.d/A.rev"},
			[]string{"var/lib/pacman/local/runc-1/desc", "etc/pacman.d/mirrorlist", "etc/pacman.d/gnupg/pubring.gpg", "etc/pacman.d/gnupg/trustdb.gpg"},
		},
	} {
		t.Run(id, func(t *testing.T) {
			root := t.TempDir()
			for _, name := range append(append([]string{"etc/passwd"}, c.gone...), c.stays...) {
				hosttest.Lay(t, root, map[string]string{name: "x"})
			}
			h := hosttest.Mounted(t, root)
			d, err := ByID(id)
			require.NoError(t, err)
			items, err := scrub.Spec{Only: []string{"packages"}}.Items(scrub.ToScrub, d.ScrubRules())
			require.NoError(t, err)
			_, err = plan.Apply(t.Context(), h, items, nil)
			require.NoError(t, err)
			for _, name := range c.gone {
				assert.NoFileExists(t, filepath.Join(root, name))
			}
			for _, name := range c.stays {
				assert.FileExists(t, filepath.Join(root, name))
			}
		})
	}
}
