//go:build e2e && full

package join_test

import "testing"

// The chain of TestChain on another release, with its own systemd, containerd
// and runc.
func TestChainOnDebian13(t *testing.T) { chain(t, "trixie", "chain-debian-13") }
