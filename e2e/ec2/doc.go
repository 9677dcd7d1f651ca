// Package ec2 is test code: a double of Amazon EC2 whose instances are real
// machines.
//
// It exists so that a whole `packer build` with the real amazon-ebs builder can
// be run without AWS: RunInstances boots a machine, StopInstances pushes its
// power button, CreateImage captures its disk, and RunInstances of the image's
// id boots that disk again. It has the actions that builder makes and no others,
// and of their parameters those it honours; everything else is refused by name
// (package endpoint).
//
//	double, err := ec2.New(ec2.Config{Machines: ec2.Lab{Lab: lab}, Folder: folder, Images: …})
//	defer double.Close()
//	api := endpoint.New(accessKey, double.Service(), sts.Service(double.Account()))
//	err = lab.Serve(ctx, "127.0.0.1:4566", api)
//
// What is not like EC2: a volume's size, type and encryption are kept and
// reported, but the disk is the machine's; an image is of whatever system the
// harness gave it, whatever its name says; CreateImage answers when the capture
// is complete instead of leaving the image pending; security groups are kept,
// and filter nothing; instances have a private address and no public one; and
// states are never stale.
package ec2
