package distros

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

func TestPacmanReadsTheDatabaseOfAnImageRoot(t *testing.T) {
	h := hosttest.Root(t, map[string]string{
		"var/lib/pacman/local/ALPM_DB_VERSION":            "9\n",
		"var/lib/pacman/local/containerd-2.2.0-1/desc":    "%NAME%\ncontainerd\n\n%VERSION%\n2.2.0-1\n\n%DESC%\n%NAME%\n\n",
		"var/lib/pacman/local/iptables-nft-1.8.11-1/desc": "%NAME%\niptables-nft\n\n%VERSION%\n1:1.8.11-1\n\n%PROVIDES%\niptables=1.8.11\narptables\n",
		"var/lib/pacman/local/half-1-1/files":             "%FILES%\n",
		"var/lib/pacman/db.lck":                           "",
	})
	have, err := Pacman().Installed(t.Context(), h, []string{"containerd", "iptables", "arptables", "half", "absent"})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"containerd": "2.2.0-1", "iptables": "1:1.8.11-1", "arptables": "1:1.8.11-1"}, have)

	left, err := Pacman().Leftover(h)
	require.NoError(t, err)
	assert.Equal(t, []string{"/var/lib/pacman/db.lck"}, left, "no pacman runs in an image root, so the lock is leftover")

	empty := hosttest.Root(t, nil)
	have, err = Pacman().Installed(t.Context(), empty, []string{"containerd"})
	require.NoError(t, err)
	assert.Empty(t, have)
	left, err = Pacman().Leftover(empty)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// A cache that is a bind mount from elsewhere does not belong to the machine.
func TestPacmanKeepsABindMountedCache(t *testing.T) {
	h := hosttest.Root(t, map[string]string{"var/cache/pacman/pkg/own.pkg.tar.zst": "own"})
	lent, cache := t.TempDir(), filepath.Join(h.Root(), "var/cache/pacman/pkg")
	require.NoError(t, os.WriteFile(filepath.Join(lent, "lent.pkg.tar.zst"), []byte("lent"), 0o600))
	require.NoError(t, unix.Mount(lent, cache, "", unix.MS_BIND, ""))
	err := Pacman().Clean(t.Context(), h)
	require.NoError(t, unix.Unmount(cache, unix.MNT_DETACH))
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(lent, "lent.pkg.tar.zst"))
	require.NoError(t, Pacman().Clean(t.Context(), h))
	assert.NoFileExists(t, filepath.Join(cache, "own.pkg.tar.zst"))
}

func TestPackageManagersRefuseImageRoots(t *testing.T) {
	h := hosttest.Root(t, nil)
	_, err := DNF().Installed(t.Context(), h, []string{"containerd"})
	require.ErrorIs(t, err, host.ErrMountedRoot)
	for _, pm := range []PackageManager{DNF(), Pacman()} {
		require.ErrorIs(t, pm.Refresh(t.Context(), h), host.ErrMountedRoot, pm.Name())
		require.ErrorIs(t, pm.Install(t.Context(), h, []string{"containerd"}), host.ErrMountedRoot, pm.Name())
	}
}
