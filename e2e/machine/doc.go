// Package machine makes real machines to build images on, to capture and to
// launch again, on one Linux host and without any cloud.
//
// Tests use it through package lab; the programs of the harness as in
//
//	lab, root, err := machine.Open(ctx, os.Stderr, machine.Nspawn)
//	builder, err := lab.Start(ctx, machine.Config{Root: root, InstanceID: "i-build", Signer: key.Signer, …})
//	err = builder.PowerOff(ctx)
//	err = builder.Capture(ctx, "image.raw")
//	one, err := lab.Start(ctx, machine.Config{Image: "image.raw", InstanceID: "i-one", …})
//
// # The lab
//
// Machines live in a [Lab]: a network namespace of the harness's own with a
// bridge (10.77.0.1/16), a DHCP and DNS server, and the apt mirror of package
// aptmirror at http://mirror.eksnode.test. It has no route outside, so whatever
// a build fetches comes from a server that the harness put there with
// [Lab.Serve] or [Lab.Listen]. The host does not see the lab's addresses either:
// a program that shall reach a machine is started with [Lab.Command] (its files
// and processes are the host's, only its network is the lab's), and code of the
// harness connects with [Lab.Dial]. Several labs, of one process or of several,
// do not notice each other.
//
// # Machines
//
// An [Nspawn] machine is a systemd-nspawn container over an overlay, a [QEMU]
// machine a virtual machine with a disk; both get address, SSH, instance data,
// power button and capture in the same way. The instance data (id, host name,
// key, user data) is a cloud-init NoCloud seed handed over from outside the
// disk: a read-only mount, or a second drive. What a machine's disk holds is
// what the base system held and what the machine itself wrote.
//
// A captured image is a bootable disk whatever kind of machine made it, and can
// be launched as either kind.
//
// # Cleaning up
//
// [Lab.Close] ends all and removes all; it is called when the context given to
// NewLab ends. Every mount, link and loop device is made inside namespaces that
// die with their processes, and every process dies with the harness, even by
// kill -9. What a killed harness leaves is its run folder and empty control
// groups, and the next lab removes them.
package machine
