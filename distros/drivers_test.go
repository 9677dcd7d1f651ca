package distros

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// drivers checks that the lines of NVIDIA's driver in the repositories are known.
func (w workshop) drivers(t *testing.T, h *host.Host) {
	t.Helper()
	driver, known := map[string]Driver{
		"apt": nvidiaOfDebian(), "dnf": nvidiaOfRedHat(nvidiaStream), "pacman": nvidiaOfArch()}[w.pm.Name()]
	if !known {
		return
	}
	w.build(t, h, pkg{name: driver.Open[0], version: "595.71.05"})
	w.publish(t, h, "", false)
	require.NoError(t, w.pm.Refresh(t.Context(), h))
	lines, err := driver.Lines(t.Context(), h, true, "linux", w.pm)
	require.NoError(t, err)
	assert.Equal(t, []string{"595"}, lines)
}
