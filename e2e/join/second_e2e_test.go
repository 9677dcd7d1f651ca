//go:build e2e && full

package join_test

import (
	"testing"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
)

// The chain of TestChain on another release, with its own systemd, containerd
// and runc.
func TestChainOnDebian13(t *testing.T) { chain(t, lab.System{Suite: "trixie"}, "chain-debian-13") }

// The chain of TestChain with containerd and runc from upstream archives, where
// the distribution's containerd is too old for kubelets after 1.35.
func TestChainWithContainerd2(t *testing.T) {
	chain(t, lab.System{Containerd: "2"}, "chain-containerd-2")
}
