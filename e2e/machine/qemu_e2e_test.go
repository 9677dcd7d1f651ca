//go:build e2e && qemu

package machine_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
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
