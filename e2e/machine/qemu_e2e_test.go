//go:build e2e && qemu

package machine_test

import (
	"path/filepath"
	"testing"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownKernel passes when the machine runs the kernel of its own disk, started by
// its own boot loader, and can do what a container cannot.
const ownKernel = `set -e
test "$(uname -r)" = "$(ls /lib/modules)"
grep -q '^BOOT_IMAGE=/vmlinuz root=LABEL=root ' /proc/cmdline
test "$(findmnt -no SOURCE /)" = /dev/vda1
sudo modprobe br_netfilter
sudo sysctl -q vm.overcommit_memory=1 kernel.panic=10
grep -q memory /sys/fs/cgroup/cgroup.controllers`

func TestQEMUFromBaseToInstances(t *testing.T) {
	bench := open(t, machine.QEMU)
	builder := bench.start(t, machine.Config{Kind: machine.QEMU, Root: bench.root, InstanceID: "i-build"})
	assert.Equal(t, "running", bench.run(t, builder, settled))
	assert.Equal(t, builder.Hostname(), bench.run(t, builder, "hostname"))
	bench.run(t, builder, ownKernel)
	timed(t, "apt-get update and install", func() error {
		bench.run(t, builder, "sudo apt-get update -q && sudo DEBIAN_FRONTEND=noninteractive apt-get install -yq socat")
		return nil
	})
	bench.run(t, builder, makeOddities)
	oddities := bench.run(t, builder, listOddities)

	folder := t.TempDir()
	raw, packed := filepath.Join(folder, "image.raw"), filepath.Join(folder, "image.qcow2")
	timed(t, "power off", func() error { return builder.PowerOff(bench.ctx) })
	timed(t, "capture raw", func() error { return builder.Capture(bench.ctx, raw) })
	timed(t, "capture qcow2", func() error { return builder.Capture(bench.ctx, packed) })
	checkImage(t, raw, packed)
	require.NoError(t, builder.Close())

	instances := map[string]machine.Config{
		"i-one":   {Kind: machine.QEMU, Image: raw},
		"i-two":   {Kind: machine.QEMU, Image: packed},
		"i-three": {Kind: machine.Nspawn, Image: packed},
	}
	for id, config := range instances {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			config.InstanceID = id
			instance := bench.start(t, config)
			assert.Equal(t, id, bench.run(t, instance, "cat /var/lib/cloud/data/instance-id"))
			assert.Equal(t, "running", bench.run(t, instance, settled))
			assert.Equal(t, instance.Hostname(), bench.run(t, instance, "hostname"))
			assert.Equal(t, oddities, bench.run(t, instance, listOddities))
			if config.Kind == machine.QEMU {
				bench.run(t, instance, ownKernel)
			}
		})
	}
}

func TestNspawnImageBootsInQEMU(t *testing.T) {
	bench := open(t, machine.Nspawn, machine.QEMU)
	builder := bench.start(t, machine.Config{Root: bench.root, InstanceID: "i-build"})
	bench.run(t, builder, "sudo touch /built")
	require.NoError(t, builder.PowerOff(bench.ctx))
	raw := filepath.Join(t.TempDir(), "image.raw")
	require.NoError(t, builder.Capture(bench.ctx, raw))

	instance := bench.start(t, machine.Config{Kind: machine.QEMU, Image: raw, InstanceID: "i-one"})
	assert.Equal(t, "running", bench.run(t, instance, settled))
	bench.run(t, instance, "test -e /built")
	bench.run(t, instance, ownKernel)
	timed(t, "power off", func() error { return instance.PowerOff(bench.ctx) })
	timed(t, "second boot", func() error { return instance.Boot(bench.ctx) })
	require.NoError(t, instance.Kill())
}
