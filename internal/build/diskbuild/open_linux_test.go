package diskbuild

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Linux runs the program that is tried, so only its architecture can be refused.
func TestEmulatesOtherArchitectures(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	require.NoError(t, emulates(runtime.GOARCH))
	require.ErrorContains(t, runs([]byte("no program")), "exec format error")
	for _, arch := range []string{"amd64", "arm64"} {
		assert.Equal(t, arch, host.ProgramArch(bytes.NewReader(program(arch))))
		if err := emulates(arch); err != nil { // this machine has no qemu
			require.ErrorContains(t, err, "): apt-get install qemu-user-static binfmt-support")
		}
	}
	assert.Empty(t, testkit.Names(t, folder))
}
