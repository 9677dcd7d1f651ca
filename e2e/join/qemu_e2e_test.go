//go:build e2e && qemu

package join_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// Packer's qemu builder makes a disk, and the post-processor makes an AMI of the disk. A
// virtual machine with UEFI boots from the AMI's volume, and an instance joins.
func TestQEMUBuilder(t *testing.T) {
	var a *account
	w := openClusters(t, lab.System{}, time.Hour, []string{nameOfA, nameOfB}, func(w *world) {
		a = w.openAccount()
		w.phase("an AMI, by packer's qemu builder", func() { w.buildInQEMU(a) })
	})
	assert.Equal(t, "uefi-preferred", a.Image("node").BootMode)
	volume := a.Image("node").Disk.Image
	w.phase("an instance of the AMI", func() {
		i := w.launch("i-one", volume, w.b.role, w.b.nodeConfig())
		defer w.end(i)
		w.runsBare(i, "one")
		w.record("AMI of the qemu builder's disk", "NodeConfig", "joins", "")
	})
	w.phase("a virtual machine with UEFI", func() {
		m := w.Start(t, machine.Config{Kind: machine.QEMU, UEFI: true, Image: volume, InstanceID: "i-uefi"})
		m.Sh(t, "test -d /sys/firmware/efi && test -n \"$(cat /etc/machine-id)\" && kubelet --version")
	})
	w.report("qemu")
}

// buildInQEMU makes the AMI node with testdata/qemu.
func (w *world) buildInQEMU(a *account) {
	w.t.Helper()
	require.NoError(w.t, base.Install(w.Ctx, w.t.Output(), append(machine.Packages(machine.QEMU), machine.CloudPackages()...)...))
	plain, cloud := filepath.Join(w.Folder(), "base.raw"), filepath.Join(w.Folder(), "cloud.raw")
	require.NoError(w.t, machine.MakeDisk(w.Ctx, w.Root, plain))
	require.NoError(w.t, machine.MakeCloudDisk(w.Ctx, plain, cloud))
	builder, err := tools.Build(w.Ctx, tools.NamePackerQEMU, "", "amd64", w.t.Output())
	require.NoError(w.t, err)
	server := w.ServeMirror(w.t, w.Port("8080"), lab.Assets(w.t).Folder, mirror.Options{})
	packer := w.NewPacker(w.t, "", map[string]string{
		"github.com/eksnode/eksnode": lab.Built(w.t, "bin/packer-plugin-eksnode"), "github.com/hashicorp/qemu": builder,
	})
	packer.Environment = append(a.serveIn(w), "XDG_CACHE_HOME="+packer.Folder)
	template, err := filepath.Abs("testdata/qemu")
	require.NoError(w.t, err)
	packer.Run(w.t, "build", "-color=false",
		"-var", "disk="+cloud, "-var", "private_key="+packer.Key, "-var", "public_key="+w.Key.Authorized,
		"-var", "kubernetes_version="+lab.Kubelet, "-var", "source_url="+server.URL(), template)
}
