//go:build e2e && full

package offline_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// TestBuildOfAFolder makes a disk of the folder with the base system, with GRUB of that
// system. A virtual machine boots from the disk by its BIOS.
func TestBuildOfAFolder(t *testing.T) {
	b := open(t)
	require.NoError(t, base.Install(b.Ctx, t.Output(), machine.Packages(machine.QEMU)...))
	made := filepath.Join(t.TempDir(), "node.raw")
	argv := append([]string{lab.Eksnode(t), "build", "--base", b.root, "-o", made, "--root-file-system", "xfs"},
		b.options...)
	out, err := b.inNetwork(argv).CombinedOutput()
	require.NoError(t, err, "%s", out)
	n := b.Start(t, machine.Config{Kind: machine.QEMU, Image: made, InstanceID: "i-folder"})
	assert.Equal(t, "Kubernetes v"+lab.Kubelet, n.Sh(t, "kubelet --version"))
	assert.Equal(t, "xfs\nvfat", n.Sh(t, "findmnt -no FSTYPE /; findmnt -no FSTYPE /boot/efi"))
}
