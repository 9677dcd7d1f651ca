package scrub

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// A cancelled scrub starts the containerd that it stopped. If containerd does not
// start, that is an error.
func TestACancelledScrubStartsContainerdAgain(t *testing.T) {
	for name, c := range map[string]struct{ start, calls, err string }{
		"started":      {"0", "stop\nstart\n", "context canceled"},
		"not starting": {"4", "stop\nstart\n", "context canceled\nrestoring a temporary change: systemctl start containerd.service: exit status 4"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			calls := filepath.Join(bin, "calls")
			script := "#!/bin/sh\ncase $1 in\nshow) echo ActiveState=active ;;\n*) echo $1 >> " + calls + " ;;\nesac\ntest $1 != start || exit " + c.start + "\n"
			require.NoError(t, os.WriteFile(filepath.Join(bin, "systemctl"), []byte(script), 0o755))
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			h, err := host.Live()
			require.NoError(t, err)
			defer h.Close()
			ctx, cancel := context.WithCancel(t.Context())
			err = withoutContainerd(ctx, h, func() error { cancel(); return ctx.Err() })
			require.EqualError(t, err, c.err)
			text, err := os.ReadFile(calls)
			require.NoError(t, err)
			assert.Equal(t, c.calls, string(text))
		})
	}
}

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
