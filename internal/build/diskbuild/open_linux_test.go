package diskbuild

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The texts are those of Linux for Debian's qemu-user-static. Without F, the kernel looks
// for qemu in the image.
func TestEmulatesOtherArchitectures(t *testing.T) {
	folder := t.TempDir()
	remedy := "apt-get install qemu-user-static binfmt-support"
	require.ErrorContains(t, emulates(folder, "arm64"), remedy)
	for text, runs := range map[string]bool{
		"enabled\ninterpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P\nflags: POCF\noffset 0\n": true,
		"enabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: OC\noffset 0\n":                false,
		"disabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: F\noffset 0\n":                false,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "qemu-aarch64"), []byte(text), 0o644))
		if err := emulates(folder, "arm64"); runs {
			require.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, remedy)
		}
	}
}
