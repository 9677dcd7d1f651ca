// Package node tests the product on real machines: a real packer runs the real
// plugin, which sends the real agent to a machine with systemd. Each test
// compares the machine before and after:
//
//	go test -tags e2e ./e2e/node -v
//
// The tests need root and install their other requirements; see package
// machine.
package node
