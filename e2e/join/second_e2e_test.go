//go:build e2e && full

package join_test

import (
	"testing"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
)

// The chain of TestChain on an older release, with its own systemd.
func TestChainOnDebian12(t *testing.T) { chain(t, lab.System{Suite: "bookworm"}, "chain-debian-12") }
