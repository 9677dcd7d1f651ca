// Package ebs is test code. It builds examples/amazon-ebs with real Packer, the
// real amazon plugin and the project's own plugin, against package aws. The
// instances are real machines without any other network. The tests also launch
// the images.
//
//	go test -tags e2e ./e2e/ebs
//
// The tests need root. They take about five minutes when the tools, the base
// system and the node's programs are cached.
//
// The tests prove that no other address is used: the lab has no other routes,
// and the kernel counts connections without a route.
package ebs
