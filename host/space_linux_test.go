package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

func TestSpaceOfAMissingPathIsThatOfItsParent(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "usr"), 0o755))
	h := mounted(t, root)

	there, err := h.Files.Space("/usr")
	require.NoError(t, err)
	missing, err := h.Files.Space("/usr/lib/nothing/here")
	require.NoError(t, err)

	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(root, &st))
	total := st.Blocks * uint64(st.Bsize)
	for _, s := range []Space{there, missing} {
		assert.False(t, s.ReadOnly)
		assert.Greater(t, s.FreeBytes, uint64(0))
		assert.LessOrEqual(t, s.FreeBytes, total)
	}
}

func TestSpaceReportsReadOnly(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "usr"), 0o755))
	usr := filepath.Join(root, "usr")
	require.NoError(t, unix.Mount("tmpfs", usr, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(usr, 0)) })
	require.NoError(t, unix.Mount("", usr, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	h := mounted(t, root)

	space, err := h.Files.Space("/usr/bin")
	require.NoError(t, err)
	assert.True(t, space.ReadOnly)
	space, err = h.Files.Space("/etc")
	require.NoError(t, err)
	assert.False(t, space.ReadOnly)
}

func TestSpaceOfFileSystems(t *testing.T) {
	folder := t.TempDir()
	for options, full := range map[string]bool{"size=1m": false, "size=1m,nr_inodes=1": true} {
		require.NoError(t, unix.Mount("tmpfs", folder, "tmpfs", 0, options))
		space, err := mounted(t, folder).Files.Space("/")
		require.NoError(t, unix.Unmount(folder, unix.MNT_DETACH))
		require.NoError(t, err)
		assert.Equal(t, Space{
			FreeBytes: 1 << 20, AvailableBytes: 1 << 20, BlockBytes: uint64(os.Getpagesize()), NoInodes: full,
		}, space)
	}
	disk := newDisk(t, 8)
	space, err := mounted(t, disk).Files.Space("/")
	require.NoError(t, err)
	device := strings.TrimSpace(testkit.Run(t, "findmnt", "--noheadings", "--output", "SOURCE", disk))
	granularity := testkit.Run(t, "lsblk", "--noheadings", "--bytes", "--nodeps", "--output", "DISC-GRAN", device)
	granularity = strings.TrimSpace(granularity)
	assert.Equal(t, granularity, itoa(space.DiscardBytes))
	assert.NotEqual(t, "0", granularity)

	btrfs := filepath.Join(t.TempDir(), "btrfs") // which counts no inodes
	testkit.Run(t, "truncate", "-s", "120M", btrfs)
	testkit.Run(t, "mkfs.btrfs", "-q", btrfs)
	testkit.Run(t, "mount", "-o", "loop", btrfs, folder)
	space, err = mounted(t, folder).Files.Space("/")
	testkit.Run(t, "umount", "-l", folder)
	require.NoError(t, err)
	assert.False(t, space.NoInodes)
}
