package scrub

import (
	"context"
	"encoding/json"
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

// registeredSnapd is the state of a snapd with a serial number and a login.
const registeredSnapd = `{"data":{"api-download-tokens-secret":"kept","auth":{"last-id":1,` +
	`"users":[{"id":1,"email":"a@example.org","macaroon":"M","store-macaroon":"S","store-discharges":["D"]}],` +
	`"device":{"brand":"canonical","model":"ubuntu","serial":"07b0c1","key-id":"FjG1","session-macaroon":"MDAy"},"macaroon-key":"a2V5"},` +
	`"seeded":true,"snaps":{"core20":{"sequence":[{"name":"core20","revision":"2318"}],"current":"2318"}},"big":12345678901234567890},"last-change-id":9007199254740993}`

func TestSnapdForgetsOnlyItsDevice(t *testing.T) {
	left, err := withoutDevice([]byte(registeredSnapd))
	require.NoError(t, err)
	assert.Equal(t, `{"data":{"api-download-tokens-secret":"kept","auth":{"last-id":1,"device":{"brand":"canonical","model":"ubuntu"}},`+
		`"seeded":true,"snaps":{"core20":{"sequence":[{"name":"core20","revision":"2318"}],"current":"2318"}},"big":12345678901234567890},"last-change-id":9007199254740993}`, string(left))
	again, err := withoutDevice(left)
	require.NoError(t, err)
	assert.Nil(t, again)
}

// A state of another form is a finding, so that the registration does not stay
// in silence.
func TestUnreadableStateOfSnapdIsAFinding(t *testing.T) {
	for text, reason := range map[string]string{
		`{"data":`: "EOF", `[]`: "the text does not start with {", `{"data":{"auth":{"device":"x"}}}`: "data: auth: device: the text does not start with {",
	} {
		t.Run(text, func(t *testing.T) {
			h, _ := tree(t, map[string]string{snapdState[1:]: text})
			answer, err := look(t, "snapd-state", h)
			require.NoError(t, err)
			require.Len(t, answer.Findings, 1)
			assert.Equal(t, "not readable as snapd's state ("+reason+"), so its serial number and logins stay: repair the file, or remove snapd with its data", answer.Findings[0].Reason)
		})
	}
}

// FuzzSnapd reads any state. What is left is an object without a registration.
func FuzzSnapd(f *testing.F) {
	f.Add([]byte(registeredSnapd))
	f.Add([]byte(`{"data":{"auth":{"users":null,"device":null}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		left, err := withoutDevice(text)
		if err != nil || left == nil {
			return
		}
		again, err := withoutDevice(left)
		if err != nil || again != nil || !json.Valid(left) {
			t.Fatalf("%q: %q, %q, %v", text, left, again, err)
		}
	})
}

// FuzzNamesCluster reads any file from the folder of NodeConfigs.
func FuzzNamesCluster(f *testing.F) {
	f.Add("kind: NodeConfig\nspec: {cluster: {name: a}}\n---\nkind: NodeConfig\n")
	f.Add("NodeConfig\n&a [*a, *a]")
	f.Add("kind: NodeConfig\nspec: {cluster: x}")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = namesCluster([]byte(text))
	})
}
