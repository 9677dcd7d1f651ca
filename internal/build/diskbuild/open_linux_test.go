package diskbuild

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Linux runs the program that is tried, so only its architecture can be refused.
func TestEmulatesOtherArchitectures(t *testing.T) {
	require.NoError(t, emulates(runtime.GOARCH))
	for arch, name := range map[string]string{"amd64": "qemu-x86_64", "arm64": "qemu-aarch64"} {
		assert.Equal(t, arch, host.ProgramArch(bytes.NewReader(program(arch))))
		if arch == runtime.GOARCH {
			continue
		}
		if _, err := os.Stat(filepath.Join("/proc/sys/fs/binfmt_misc", name)); err != nil {
			require.ErrorContains(t, emulates(arch), "exec format error): apt-get install qemu-user-static binfmt-support")
		} else {
			require.NoError(t, emulates(arch))
		}
	}
}
