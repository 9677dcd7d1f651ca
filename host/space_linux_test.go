package host

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

func TestSpaceOfFileSystems(t *testing.T) {
	folder := t.TempDir()
	empty := Space{FreeBytes: 1 << 20, AvailableBytes: 1 << 20, BlockBytes: uint64(os.Getpagesize())}
	full, readOnly := empty, empty
	full.NoInodes, readOnly.ReadOnly = true, true
	for options, want := range map[string]Space{"rw": empty, "nr_inodes=1": full, "ro": readOnly} {
		testkit.Run(t, "mount", "-t", "tmpfs", "-o", "size=1m,"+options, "tmpfs", folder)
		files := mounted(t, folder).Files
		space, err := files.Space("/")
		missing, missingErr := files.Space("/usr/lib/nothing/here")
		require.NoError(t, unix.Unmount(folder, unix.MNT_DETACH))
		require.NoError(t, errors.Join(err, missingErr))
		assert.Equal(t, want, space)
		assert.Equal(t, want, missing, "a missing path is on the file system of its parent")
	}
	disk := newDisk(t, 8)
	space, err := mounted(t, disk).Files.Space("/")
	require.NoError(t, err)
	device := strings.TrimSpace(testkit.Run(t, "findmnt", "--noheadings", "--output", "SOURCE", disk))
	granularity := testkit.Run(t, "lsblk", "--noheadings", "--bytes", "--nodeps", "--output", "DISC-GRAN", device)
	granularity = strings.TrimSpace(granularity)
	assert.Equal(t, granularity, itoa(space.DiscardBytes))
	assert.NotEqual(t, "0", granularity)

	testkit.Disk(t, folder, "120M", "", "mkfs.btrfs", "-q") // which counts no inodes
	space, err = mounted(t, folder).Files.Space("/")
	require.NoError(t, err)
	assert.False(t, space.NoInodes)
}
