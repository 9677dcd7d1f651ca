//go:build e2e && qemu

package machine_test

import (
	"errors"
	"os"
	"path/filepath"
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

func TestQEMUFromBaseToInstances(t *testing.T) {
	l := lab.Open(t, 3*limit, machine.QEMU)
	raw, packed, oddities := fromBase(t, l, machine.QEMU)
	for id, config := range map[string]machine.Config{
		"i-one":   {Kind: machine.QEMU, Image: raw},
		"i-two":   {Kind: machine.QEMU, Image: packed},
		"i-three": {Kind: machine.Nspawn, Image: packed},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			config.InstanceID = id
			instance := l.Start(t, config)
			isNew(t, instance, oddities)
			if config.Kind == machine.QEMU {
				instance.Sh(t, ownKernel)
			}
		})
	}
}

func TestNspawnImageBootsInQEMU(t *testing.T) {
	l := lab.Open(t, limit, machine.Nspawn, machine.QEMU)
	builder := l.Start(t, machine.Config{Root: l.Root, InstanceID: "i-build"})
	builder.Sh(t, "touch /built")
	raw := filepath.Join(t.TempDir(), "image.raw")
	builder.CaptureTo(t, raw)
	instance := l.Start(t, machine.Config{Kind: machine.QEMU, Image: raw, InstanceID: "i-one"})
	assert.Equal(t, "running", instance.Sh(t, settled))
	instance.Sh(t, "test -e /built")
	instance.Sh(t, ownKernel)
	require.NoError(t, instance.PowerOff(l.Ctx))
	require.NoError(t, instance.Boot(l.Ctx))
	require.NoError(t, instance.Kill())
}

// The boot mode that a disk shows is right: a disk with both boot loaders boots by BIOS,
// and a disk without the one for BIOS boots by UEFI.
func TestCloudDiskBootsByBIOSAndUEFI(t *testing.T) {
	l := lab.Open(t, 2*limit, machine.Nspawn, machine.QEMU)
	require.NoError(t, base.Install(l.Ctx, t.Output(), machine.CloudPackages()...))
	builder := l.Start(t, machine.Config{Root: l.Root, InstanceID: "i-build"})
	folder := t.TempDir()
	raw, both, uefi := filepath.Join(folder, "image.raw"), filepath.Join(folder, "both.raw"), filepath.Join(folder, "uefi.raw")
	builder.CaptureTo(t, raw)
	require.NoError(t, machine.MakeCloudDisk(l.Ctx, raw, both))
	require.NoError(t, machine.MakeCloudDisk(l.Ctx, raw, uefi))
	bootCode, err := os.OpenFile(uefi, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = bootCode.Write(make([]byte, 440))
	require.NoError(t, errors.Join(err, bootCode.Close()))
	for id, c := range map[string]struct {
		disk, mode string
		uefi       bool
	}{"i-both": {both, "uefi-preferred", false}, "i-uefi": {uefi, "uefi", true}} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.mode, bootMode(t, c.disk))
			instance := l.Start(t, machine.Config{Kind: machine.QEMU, Image: c.disk, InstanceID: id, UEFI: c.uefi})
			assert.Equal(t, "running", instance.Sh(t, settled))
			instance.Sh(t, ownKernel)
			assert.Equal(t, c.uefi, instance.Try(t, "test -d /sys/firmware/efi").Code == 0)
		})
	}
}

// bootMode is the boot mode that the contents of a disk show.
func bootMode(t *testing.T, path string) string {
	t.Helper()
	image, err := disk.Open(path)
	require.NoError(t, err)
	defer image.Close()
	layout, err := image.Layout()
	require.NoError(t, err)
	assert.Empty(t, layout.Notes)
	return layout.Boot.Mode()
}
