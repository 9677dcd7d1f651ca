package diagnose

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// report searches lines.
func report(t *testing.T, lines ...string) Report {
	t.Helper()
	return searched(t, "log\n"+strings.Join(lines, "\n"))
}

func TestEveryCauseSaysHowSureItIs(t *testing.T) {
	const (
		swap    = `E1120 20:11:13.325154 1 run.go:72] "command failed" err="running with swap on is not supported"`
		blocked = `dial tcp 10.0.1.2:443: i/o timeout`
		script  = `cloud-init[1]: Failed to run module scripts-user`
	)
	for _, one := range []struct {
		lines []string
		sure  Certainty
		why   string
	}{
		{[]string{swap}, Certain, "the lines say what is wrong"},
		{[]string{blocked}, Likely, "the lines may also mean that the endpoint in the user data is not that of the cluster, or the API server restarted at that time"},
		{[]string{script}, Possible, "the lines show that something failed, but not why"},
		{[]string{"Successfully registered node", swap}, Certain, "the lines say what is wrong; the logs also show that the node joined"},
	} {
		r := report(t, one.lines...)
		require.Len(t, r.Findings, 1)
		assert.Equal(t, one.sure, r.Findings[0].Certainty)
		assert.Equal(t, one.why, r.Findings[0].Why)
	}
}

// The end of a service says less than a line with an error.
func TestAConsequenceComesLast(t *testing.T) {
	r := report(t, `systemd[1]: Failed to start containerd container runtime.`,
		`systemd[7]: Failed at step LIMITS spawning /usr/bin/containerd: Operation not permitted`)
	assert.Equal(t, "file", r.Findings[0].Rule.ID)
}

// A rule has all the parts of a cause.
func TestEveryRuleIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		assert.False(t, seen[r.ID], r.ID)
		seen[r.ID] = true
		assert.NotEmpty(t, r.Cause, r.ID)
		assert.NotEmpty(t, r.Remedy, r.ID)
		assert.NotEmpty(t, r.Commands, r.ID)
		for _, text := range []string{r.Cause, r.Remedy, r.Others} {
			assert.False(t, strings.HasSuffix(text, "."), r.ID)
		}
		for _, other := range r.Explains {
			assert.True(t, slices.ContainsFunc(Rules(), func(r Rule) bool { return r.ID == other }),
				"%s explains the unknown rule %s", r.ID, other)
		}
	}
}

// A cause that the matrix does not have is a row with lines of its own. The rows are few.
func TestTheTableIsSmall(t *testing.T) {
	specific := 0
	for _, r := range Rules() {
		if !r.Otherwise && !slices.ContainsFunc(words().Matrix, func(c cell) bool { return c.Cause == r.ID }) {
			specific++
			assert.NotEmpty(t, r.Lines, r.ID)
		}
	}
	assert.LessOrEqual(t, specific, 60)
}

// A mistake in the table is an error with its line.
func TestATableWithMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"causes:\n- id: a\n  line: [b]": `t:3: causes[0].line: unknown field; did you mean lines?`,
		"causes:\n- id: a\n  lines: b":  `t:3: causes[0].lines: must be a list, not text`,
		"causes:\n- id: a\n  remedy:":   `t:3: causes[0].remedy: there is no value`,
		"causes:\n- id: a\n  id: b":     `t:3: causes[0].id: the field is set twice; first in line 2`,
		"causes:\n- commands: [*a]":     `t: unknown anchor 'a' referenced`,
		"moments:\n  joined:\n  - a(":   "t:3: moments.joined[0]: error parsing regexp: missing closing ): `a(`",
		"causes:\n- lines:\n  - a\n  - b)\n  not:\n  - c)": "t:4: causes[0].lines[1]: error parsing regexp: " +
			"unexpected ): `b)`\nt:6: causes[0].not[0]: error parsing regexp: unexpected ): `c)`",
		"causes:\n- owners:\n  - line: a)": "t:3: causes[0].owners[0].line: error parsing regexp: unexpected ): `a)`",
		"causes:\n- files:\n  - has: a)":   "t:3: causes[0].files[0]: error parsing regexp: unexpected ): `a)`",
		"moments: {joined: [a]}\ncauses:\n- id: a\n  until: joint": `t:4: causes[0].until: unknown moment "joint"; ` +
			`did you mean joined?`,
	} {
		_, err := readTable("t", []byte(text))
		assert.EqualError(t, err, want, text)
	}
}
