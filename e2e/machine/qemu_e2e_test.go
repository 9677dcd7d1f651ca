//go:build e2e && qemu

package machine_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
)

// ownKernel succeeds when the machine runs the kernel of its own disk, started
// by its own boot loader, with features that a container lacks.
const ownKernel = `set -e
test "$(uname -r)" = "$(ls /lib/modules)"
grep -q '^BOOT_IMAGE=/vmlinuz root=LABEL=root ' /proc/cmdline
test "$(findmnt -no SOURCE /)" = /dev/vda1
modprobe br_netfilter
sysctl -q vm.overcommit_memory=1 kernel.panic=10
grep -q memory /sys/fs/cgroup/cgroup.controllers`

// The boot mode that a disk shows is right, and what is not free is enough to boot: the
// free blocks hold garbage.
func TestCloudDiskBootsByBIOSAndUEFI(t *testing.T) {
	l := lab.Open(t, 2*limit, machine.Nspawn, machine.QEMU)
	require.NoError(t, base.Install(l.Ctx, t.Output(), machine.CloudPackages()...))
	builder := l.Start(t, machine.Config{Root: l.Root, InstanceID: "i-build"})
	folder := t.TempDir()
	raw, cloud := filepath.Join(folder, "image.raw"), filepath.Join(folder, "cloud.raw")
	builder.CaptureTo(t, raw)
	require.NoError(t, machine.MakeCloudDisk(l.Ctx, raw, cloud))
	layout := layoutOf(t, cloud)
	assert.Equal(t, "uefi-preferred", layout.Boot.Mode())
	bootCode := make([]byte, 440)
	change(t, cloud, func(f *os.File) error {
		_, err := f.ReadAt(bootCode, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(make([]byte, len(bootCode)), 0)
		return err
	})
	assert.Equal(t, "uefi", layoutOf(t, cloud).Boot.Mode())
	change(t, cloud, func(f *os.File) error {
		_, err := f.WriteAt(bootCode, 0)
		require.NoError(t, err)
		used, garbage := slices.Collect(layout.Blocks()), bytes.Repeat([]byte{0xa5}, disk.BlockSize)
		for index := range slices.Max(used) {
			if _, found := slices.BinarySearch(used, index); !found && err == nil {
				_, err = f.WriteAt(garbage, index*disk.BlockSize)
			}
		}
		return err
	})
	for id, uefi := range map[string]bool{"i-bios": false, "i-uefi": true} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			instance := l.Start(t, machine.Config{Kind: machine.QEMU, Image: cloud, InstanceID: id, UEFI: uefi})
			assert.Equal(t, "running", instance.Sh(t, settled))
			instance.Sh(t, ownKernel)
			assert.Equal(t, uefi, instance.Try(t, "test -d /sys/firmware/efi").Code == 0)
		})
	}
}

// change opens a disk for a function. A disk that is open for writing has no layout.
func change(t *testing.T, path string, do func(*os.File) error) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, errors.Join(do(f), f.Close()))
}

func layoutOf(t *testing.T, path string) *disk.Layout {
	t.Helper()
	image, err := disk.Open(path)
	require.NoError(t, err)
	defer image.Close()
	assert.Empty(t, image.Layout.Notes)
	return image.Layout
}
