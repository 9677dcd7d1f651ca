//go:build e2e

package base

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shared returns the mirror with the packages that earlier builds downloaded.
func shared(t *testing.T) *aptmirror.Mirror {
	t.Helper()
	upstream, err := aptmirror.HostUpstream(t.Context())
	require.NoError(t, err)
	cache, err := Cache()
	require.NoError(t, err)
	mirror, err := aptmirror.New(AptCache(cache), upstream)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, mirror.Close()) })
	return mirror
}

func TestPrepareBuildsOnceForTwoProcesses(t *testing.T) {
	debian := Debian{Cache: t.TempDir(), Mirror: shared(t)}
	var group sync.WaitGroup
	logs, roots := make([]bytes.Buffer, 2), make([]string, 2)
	for i := range 2 {
		group.Go(func() {
			var err error
			roots[i], err = debian.Prepare(t.Context(), &logs[i])
			assert.NoError(t, err)
		})
	}
	group.Wait()
	assert.Equal(t, roots[0], roots[1])
	said := logs[0].String() + logs[1].String()
	assert.Equal(t, 1, strings.Count(said, "building the base system"), said)

	root := roots[0]
	for _, path := range []string{
		"vmlinuz", "initrd.img", "usr/sbin/sshd", "usr/bin/cloud-init",
		"boot/grub/i386-pc/boot.img", "boot/grub/i386-pc/core.img",
	} {
		// The links to kernel and initrd are relative and stay in the tree.
		assert.FileExists(t, filepath.Join(root, path))
	}
	for _, path := range []string{"etc/machine-id", "etc/fstab"} {
		content, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		assert.Empty(t, content, path)
	}
	for _, pattern := range []string{
		"etc/ssh/ssh_host_*", "etc/hostname", "var/lib/dbus/machine-id", "etc/apt/apt.conf.d/99mmdebstrap",
		"var/lib/apt/lists/*Packages*", "var/cache/apt/archives/*.deb", "etc/apt/sources.list.d/*",
		"etc/systemd/system/timers.target.wants/apt-daily*", "usr/sbin/ifup", "var/log/*.log",
	} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		assert.Empty(t, matches, pattern)
	}
	list, err := os.ReadFile(filepath.Join(root, "etc/apt/sources.list"))
	require.NoError(t, err)
	assert.Equal(t, sources("trixie"), string(list))
}

func TestPrepareWithoutMirror(t *testing.T) {
	cache := t.TempDir()
	mirror, err := aptmirror.New(AptCache(cache), aptmirror.Upstream{
		// The discard port of loopback: nothing listens there.
		Archives: map[string]string{"debian": "http://127.0.0.1:9", "debian-security": "http://127.0.0.1:9"},
		Proxy:    "DIRECT",
	})
	require.NoError(t, err)
	defer mirror.Close()
	var log bytes.Buffer
	_, err = Debian{Cache: cache, Mirror: mirror}.Prepare(t.Context(), &log)
	assert.ErrorContains(t, err, "building the base system: running mmdebstrap (its output is in the log): ")
	assert.Contains(t, log.String(), "502")
	parts, err := filepath.Glob(filepath.Join(cache, "base", "*.part"))
	require.NoError(t, err)
	assert.Empty(t, parts)
}
