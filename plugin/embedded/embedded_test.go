package embedded

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAMissingAgentIsAnError(t *testing.T) {
	_, err := Agent("riscv64")
	require.EqualError(t, err, "this plugin was built without its agent for linux/riscv64; build it with `make build`")
}

// The folder must exist in a fresh clone, or the plugin does not compile.
func TestAgentsFolderIsCommitted(t *testing.T) {
	data, err := folder.ReadFile("agents/README.md")
	require.NoError(t, err)
	assert.NotEmpty(t, data)
}

// Every build sends an agent to a machine, and every first boot reads the program
// from a cold disk.
func TestTheAgentsAreSmall(t *testing.T) {
	const most, mostCompressed = 28_000_000, 10_000_000 // bytes
	for _, arch := range []string{"amd64", "arm64"} {
		packed, err := Agent(arch)
		require.NoError(t, err)
		z, err := gzip.NewReader(bytes.NewReader(packed))
		require.NoError(t, err)
		size, err := io.Copy(io.Discard, z)
		require.NoError(t, err)
		t.Logf("the agent for %s has %.2f MB, compressed %.2f MB", arch, float64(size)/1e6, float64(len(packed))/1e6)
		assert.LessOrEqual(t, size, int64(most), arch)
		assert.LessOrEqual(t, len(packed), mostCompressed, arch)
	}
}
