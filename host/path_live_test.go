//go:build linux

package host_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Commands in /usr/local are found, and find each other, although sudo of Red
// Hat's family leaves these folders out of the search path.
func TestCommandsBelowUsrLocalAreFound(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		t.Setenv("PATH", "/sbin:/bin:/usr/sbin:/usr/bin")
		assert.False(t, h.HasCommand("eksnode-outer"))
		for name, text := range map[string]string{
			"/usr/local/bin/eksnode-outer": "#!/bin/sh\nexec eksnode-inner\n", "/usr/local/sbin/eksnode-inner": "#!/bin/sh\necho found, $PATH\n",
		} {
			require.NoError(t, os.WriteFile(name, []byte(text), 0o755))
		}
		assert.True(t, h.HasCommand("eksnode-outer"))
		out, err := h.Run(t.Context(), host.Command{Argv: []string{"eksnode-outer"}})
		require.NoError(t, err)
		assert.Equal(t, "found, /sbin:/bin:/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin\n", string(out))
		out, err = h.Run(t.Context(), host.Command{Argv: []string{"sh", "-c", "echo $PATH"}, Env: []string{"PATH=/usr/bin"}})
		require.NoError(t, err)
		assert.Equal(t, "/usr/bin\n", string(out), "a command's own PATH wins")
	})
}
