//go:build e2e

package provisioner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// install installs Debian's zram-generator, once: a copy of the machine has it.
func install(t *testing.T) {
	if os.Getenv("EKSNODE_LIVETEST") == "" {
		require.NoError(t, base.Install(t.Context(), os.Stderr, "systemd-zram-generator"))
	}
}

// generated runs the real zram-generator as systemd does at boot, and returns
// the units of swap that it makes.
func generated(t *testing.T, h *host.Host) []string {
	t.Helper()
	var folders []string
	for range 3 {
		folders = append(folders, t.TempDir())
	}
	_, err := h.Run(t.Context(), host.Command{Argv: append([]string{zramGenerator}, folders...), Env: []string{"ZRAM_GENERATOR_ROOT=/"}})
	require.NoError(t, err)
	units := testkit.Glob(t, folders[0]+"/*.swap")
	for i, unit := range units {
		units[i] = filepath.Base(unit)
	}
	return units
}

// After the step, zram-generator makes no swap at the next boot, wherever the
// distribution or an administrator configures it, and a second run changes
// nothing.
func TestZramGeneratorMakesNoSwap(t *testing.T) {
	const device = "[zram0]\nzram-size = 64\n"
	install(t)
	for name, files := range map[string]map[string]string{
		"the distribution's":       nil,
		"the distribution's parts": {"/usr/lib/systemd/zram-generator.conf.d/10-size.conf": device},
		"local":                    {"/usr/local/lib/systemd/zram-generator.conf": device},
		"local parts":              {"/usr/local/lib/systemd/zram-generator.conf.d/10-size.conf": device, "/usr/lib/systemd/zram-generator.conf.d/20-more.conf": device},
		"the administrator's":      {"/etc/systemd/zram-generator.conf": device},
	} {
		t.Run(name, func(t *testing.T) {
			livetest.Run(t, func(t *testing.T, h *host.Host) {
				// Fedora's default in place of Debian's.
				require.NoError(t, os.Remove("/etc/systemd/zram-generator.conf"))
				testkit.Write(t, "/usr/lib/systemd/zram-generator.conf", "[zram0]\nzram-size = min(ram, 8192)\n")
				for name, text := range files {
					testkit.Write(t, name, text)
				}
				require.Equal(t, []string{"dev-zram0.swap"}, generated(t, h))
				require.NoError(t, settle(t, h, pick(nodeOf(t, "fedora", Spec{}), "swap")...))
				assert.Empty(t, generated(t, h))
			})
		})
	}
}

// With swap = "zram", Debian's zram-generator makes the swap, and a second run changes
// nothing.
func TestZramGeneratorMakesTheSwap(t *testing.T) {
	install(t)
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		require.NoError(t, settle(t, h, pick(nodeOf(t, "debian", Spec{Swap: "zram"}), "swap")...))
		assert.Equal(t, []string{"dev-zram0.swap"}, generated(t, h))
	})
}
