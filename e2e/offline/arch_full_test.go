//go:build e2e && full

package offline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// TestOfflineRootOnArch compares an offline root with a booted machine, with pacman.
func TestOfflineRootOnArch(t *testing.T) {
	arch, ok := shape.All()["arch"]
	require.True(t, ok)
	b := openOn(t, lab.System{Shape: &arch})
	testkit.Output(t, b.provision(t))
	b.equal(t)
}
