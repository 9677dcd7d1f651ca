// Package node proves the product on real machines: a real packer runs the real
// plugin, which sends the real agent to a machine that systemd started, and each
// test looks at that machine before and after. All of it is in the tests:
//
//	go test -tags e2e ./e2e/node -v
//
// They need root and install what else they need; see package machine.
package node
