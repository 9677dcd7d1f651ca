//go:build e2e && full

package offline_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// TestBuildOfAFolder makes a disk of the folder with the base system, with GRUB of that
// system. Virtual machines boot from the disk by BIOS and by UEFI.
func TestBuildOfAFolder(t *testing.T) {
	b := open(t)
	require.NoError(t, base.Install(b.Ctx, t.Output(), machine.Packages(machine.QEMU)...))
	testkit.Output(t, b.provision(t, "--packages", "grub-efi-amd64-bin"))
	made := filepath.Join(t.TempDir(), "node.raw")
	argv := append([]string{lab.Eksnode(t), "build", "--base", b.root, "-o", made, "--root-file-system", "xfs"},
		b.options...)
	testkit.Output(t, b.Resolving(argv))
	for _, uefi := range []bool{false, true} {
		n := b.Start(t, machine.Config{Kind: machine.QEMU, Image: made, UEFI: uefi, InstanceID: fmt.Sprint("i-uefi-", uefi)})
		assert.Equal(t, "Kubernetes v"+lab.Kubelet, n.Sh(t, "kubelet --version"))
		assert.Equal(t, "xfs\nvfat", n.Sh(t, "findmnt -no FSTYPE /; findmnt -no FSTYPE /boot/efi"))
		assert.Equal(t, fmt.Sprint(uefi), n.Sh(t, "[ ! -d /sys/firmware/efi ] && echo false || echo true"))
		assert.NoError(t, n.Close())
	}
}
