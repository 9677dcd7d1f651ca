// Package machine makes real machines on one Linux host without any cloud.
// Tests build images on them, capture them, and launch instances.
//
// Tests use package machine through package lab. The harness's own programs use
// it directly:
//
//	lab, root, err := machine.Open(ctx, os.Stderr, machine.Nspawn)
//	builder, err := lab.Start(ctx, machine.Config{Root: root, InstanceID: "i-build", Signer: key.Signer, …})
//	err = builder.PowerOff(ctx)
//	err = builder.Capture(ctx, "image.raw")
//	one, err := lab.Start(ctx, machine.Config{Image: "image.raw", InstanceID: "i-one", …})
//
// # The lab
//
// Machines live in a [Lab]: a network namespace with a bridge (10.77.0.1/16), a
// DHCP and DNS server, and the apt mirror of package aptmirror at
// http://mirror.eksnode.test. A lab has no route outside: builds download only
// from servers that the harness starts with [Lab.Serve] or [Lab.Listen].
//
// The host does not see the lab's addresses either. A program that needs to
// reach a machine must be started with [Lab.Command]: it runs in the lab's
// network, with the host's files and processes. Code of the harness connects
// with [Lab.Dial]. Several labs, of one process or of several, do not affect
// each other.
//
// # Machines
//
// An [Nspawn] machine is a systemd-nspawn container over an overlay. A [QEMU]
// machine is a virtual machine with a disk. Both have address, SSH, instance
// data, power button and capture in the same form. The instance data (id, host
// name, key, user data) is a cloud-init NoCloud seed outside the disk: a
// read-only mount, or a second drive. A machine's disk holds only the base
// system and what the machine itself wrote.
//
// A captured image is a bootable disk, independent of the kind of its machine.
// It can be launched as either kind.
//
// # Cleaning up
//
// [Lab.Close] ends and removes everything. It also runs when the context of
// NewLab ends. All mounts, links and loop devices are in namespaces that end
// with their processes, and all processes end with the harness, even after kill
// -9. A killed harness leaves only its run folder and empty control groups. The
// next lab removes both.
package machine
