//go:build linux

package distros

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// What dnf 5 prints while it waits.
const dnf5Waiting = `Waiting for a lock on the system repository. The following processes are currently accessing it:\n2732\tdnf install socat \nUse the "--skip-file-locks" option to bypass the lock.\n`

// A tool that waits by itself is stopped when the time is over. A tool that goes on
// after waiting is not.
func TestToolsThatWaitAreStopped(t *testing.T) {
	h, err := host.Live()
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close()) }()
	for name, test := range map[string]struct{ script, wantErr string }{
		"waits": {
			`printf '` + dnf5Waiting + `'; exec tail -f /dev/null`,
			"another package manager is still running: sh -c: stopped, because it waited for a lock longer than 0s: " +
				"Waiting for a lock on the system repository. The following processes are currently accessing it:\n2732\tdnf install socat \nUse the \"--skip-file-locks\" option to bypass the lock.",
		},
		"waits, other words": {
			`printf 'Waiting for a lock on the system repository; another process is currently accessing it.\n'; exec tail -f /dev/null`,
			"another package manager is still running: sh -c: stopped, because it waited for a lock longer than 0s: Waiting for a lock on the system repository; another process is currently accessing it.",
		},
		"goes on":          {`printf '` + dnf5Waiting + `Repositories loaded.\n'; sleep 2`, ""},
		"goes on and ends": {`printf '` + dnf5Waiting + `Repositories loaded.\nFailed to resolve\n'; exit 3`, "sh -c: exit status 3: Waiting for a lock"},
		"does not wait":    {`echo done`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tool := tool{words: 2, symptoms: "rpm", locked: dnfLocked, waits: dnf5Waits}
			err := tool.run(t.Context(), h, []string{"sh", "-c", test.script})
			if test.wantErr == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.True(t, strings.HasPrefix(err.Error(), test.wantErr), err)
		})
	}
}

func FuzzWaitsMatchesOnlyTheEnd(f *testing.F) {
	waits := regexp.MustCompile(dnf5Waits)
	for _, text := range []string{"", "Waiting for a lock on 0", "Waiting for a lock on the system repository", "Waiting for a lock on the system repository.\n7\tdnf\n", "Repositories loaded.\n", "Waiting for a lock on x\nUse the \n12 \n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		assert.False(t, waits.MatchString(text+"\nRepositories loaded.\n"))
		assert.True(t, waits.MatchString(text+"\nWaiting for a lock on the system repository. The following processes are currently accessing it:\n2732\tdnf install socat \n"))
	})
}
