package diagnose

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A log of several boots is about the last one.
func TestTheLastBootCounts(t *testing.T) {
	swap, refused := lines["swap"][0], `kubelet[1]: "Unable to register node with API server" err="Unauthorized"`
	const registered = `kubelet[1]: "Successfully registered node" node="a"`
	entry := func(boot, text string) string { return `{"_BOOT_ID":"` + boot + `","MESSAGE":` + quoted(text) + `}` }
	separators := []string{
		"-- Reboot --", "-- Boot 0123456789abcdef0123456789abcdef --", "Nov 20 20:11:12 ip-10-0-1-2 kernel: Linux version 6.1.0-28 (builder@host) (gcc 14) #1 SMP",
		"[    0.000000] Linux version 6.1.0-28 (builder@host) (gcc 14) #1 SMP",
	}
	for _, between := range separators {
		for _, c := range []struct {
			lines []string
			want  string
		}{
			{[]string{swap, between, refused}, "unauthorized"},
			{[]string{swap, between, registered}, Joined},
			{[]string{registered, between, swap}, "swap"},
			{[]string{swap, between, "the machine was started again"}, "swap"},
			{[]string{swap, between, "one", between, "two"}, "swap"},
			{[]string{registered, between, "one"}, Joined},
			{[]string{between, swap}, "swap"},
		} {
			r := report(t, c.lines...)
			got := r.Result()
			if got == Found {
				require.Len(t, r.Findings, 1, c.lines)
				got = r.Findings[0].Rule.ID
			}
			assert.Equal(t, c.want, got, strings.Join(c.lines, "\n"))
		}
	}
	r := report(t, entry("a", swap), entry("b", refused))
	require.Len(t, r.Findings, 1)
	assert.Equal(t, "unauthorized", r.Findings[0].Rule.ID)
	// The first failure is that of the last boot, too.
	r = report(t, "Nov 20 20:11:12 a old[1]: a strange failure", "-- Reboot --", "Nov 20 21:11:12 a new[1]: a strange failure")
	assert.Equal(t, "new", r.First.Unit)
}
