package scrub

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// journald sends every line to syslog.socket, and the socket starts rsyslog again
// at once. So a unit is stopped together with the units that start it.
func TestUnitsThatStartAWriterAreStoppedWithIt(t *testing.T) {
	bin := t.TempDir()
	calls := filepath.Join(bin, "calls")
	script := `#!/bin/sh
case "$1 $2 $3" in
"show --property=TriggeredBy rsyslog.service") echo TriggeredBy=syslog.socket other.path ;;
"show --property=TriggeredBy "*) echo TriggeredBy= ;;
*) echo "$@" >> ` + calls + ` ;;
esac
`
	require.NoError(t, os.WriteFile(filepath.Join(bin, "systemctl"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	h, err := host.Live()
	require.NoError(t, err)
	defer h.Close()
	for _, unit := range []string{"rsyslog.service", "cron.service"} {
		require.NoError(t, stopUnit(t.Context(), h, unit))
	}
	text, err := os.ReadFile(calls)
	require.NoError(t, err)
	assert.Equal(t, "stop syslog.socket other.path rsyslog.service\nstop cron.service\n", string(text))
}
