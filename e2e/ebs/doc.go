// Package ebs is test code: it builds examples/amazon-ebs with real packer, the
// real amazon plugin and the project's own, against package aws, whose
// instances are real machines, where no other network can be reached; and it
// launches the images again.
//
//	go test -tags e2e ./e2e/ebs
//
// It needs root and takes about five minutes when the tools, the base system
// and the node's programs are in the caches.
//
// That nothing else is reached is not taken on trust: the lab has no routes, and
// the kernel counts whoever looks for one.
package ebs
