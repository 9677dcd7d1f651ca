//go:build linux

package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/console"
	"github.com/eksnode/packer-plugin-eksnode/internal/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// monitor records what a person sees on the screen.
type monitor struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *monitor) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *monitor) ui() packersdk.Ui { return &packersdk.BasicUi{Writer: s} }

func (s *monitor) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Split(strings.TrimSuffix(s.text.String(), "\n"), "\n")
}

// rest waits for a line that starts with prefix and returns the rest of the line.
func (s *monitor) rest(t *testing.T, prefix string) string {
	var rest string
	require.Eventually(t, func() bool {
		for _, line := range s.lines() {
			var found bool
			if rest, found = strings.CutPrefix(line, prefix); found {
				return true
			}
		}
		return false
	}, 30*time.Second, time.Millisecond, "no line starts with %q", prefix)
	return rest
}

// osc52 has the control sequence that sets a terminal's clipboard, and other
// control and invisible characters.
const osc52 = "\x1b]52;c;ZXZpbA==\a\u009b31m\x7f\u202e\u2028\x9b"

func (s *monitor) printable(t *testing.T) {
	t.Helper()
	text := strings.Join(s.lines(), "\n")
	assert.Equal(t, show.Printable(text), text)
}

// Control characters in any field of an event are printed as escapes.
func TestControlCharactersOfTheMachineAreEscaped(t *testing.T) {
	hostile := plan.Action{Verb: osc52, Target: osc52, Reason: osc52 + "\nforged: line"}
	found := []plan.Finding{{Target: osc52, Reason: osc52 + "\nforged: line"}}
	m := &monitor{}
	c := console.New(&screen{Ui: m.ui()}, console.Options{Details: true, Verbose: true, Now: time.Now})
	talk := &conversation{begun: true, private: Config{}.private, begin: func() {}, console: c, version: "1", hangUp: func() {}}
	for _, e := range []agent.Event{
		{Kind: agent.Hello, Message: "1 " + osc52},
		{Kind: agent.Begin, Item: osc52, Phase: osc52, Actions: 1},
		{Kind: agent.Progress, Item: osc52, Action: &hostile, Done: 1, Total: 2},
		{Kind: agent.Warning, Message: osc52},
		{Kind: agent.End, Outcome: &plan.Outcome{Item: osc52, Phase: osc52, Status: osc52, Error: osc52, Findings: found}},
		{Kind: agent.End, Outcome: &plan.Outcome{Item: osc52, Phase: "x", Status: plan.Failed, Error: osc52}},
		{Kind: agent.Finished, Report: &plan.Report{
			Command: osc52, Result: osc52, Warnings: []string{osc52 + "\nforged: line"}, Plan: []plan.Planned{{Item: osc52, Phase: osc52, Error: osc52, Actions: []plan.Action{hostile}, Findings: found}},
			Audit: &plan.Audit{Result: osc52, Error: osc52, Plan: []plan.Planned{{Item: osc52, Actions: []plan.Action{hostile}, Findings: found}}},
		}},
	} {
		line, err := json.Marshal(e)
		require.NoError(t, err)
		talk.line(line)
	}
	talk.aside([]byte(osc52))
	require.NoError(t, talk.heard().err)
	m.printable(t)
	assert.Contains(t, strings.Join(m.lines(), "\n"), `\x1b]52;c;ZXZpbA==\a\u009b31m\x7f\u202e\u2028`)
	for _, line := range m.lines() {
		assert.NotRegexp(t, "^forged", line)
	}
}

func TestErrorsArePrintableAndBounded(t *testing.T) {
	err := shown(fmt.Errorf("%s: %w", osc52, errLost))
	assert.ErrorIs(t, err, errLost)
	assert.Equal(t, show.Printable(err.Error()), err.Error())
	long := shown(errors.New(strings.Repeat("x", 1<<20))).Error()
	assert.Equal(t, errorMost+len(" … (1032192 bytes more)"), len(long))
	require.NoError(t, shown(nil))
}

func TestOutputOfTheMachineIsBounded(t *testing.T) {
	m := &monitor{}
	s := &screen{Ui: m.ui()}
	s.Say(strings.Repeat("x", 1<<20))
	for range 2 * linesMost {
		s.Error("x")
	}
	lines := m.lines()
	assert.Len(t, lines, linesMost)
	assert.Less(t, len(lines[0]), shownMost+100)
	assert.Equal(t, "(no more lines are shown; the report has the rest)", lines[len(lines)-1])
}

// The output of a failed probe becomes part of Packer's error.
func TestControlCharactersInProbesAreEscaped(t *testing.T) {
	b := newBench(t, "done").overSSH()
	b.machine.Shell = func(string) *exec.Cmd { return exec.Command("/bin/sh", "-c", `printf '%s' "$0" >&2; exit 1`, osc52) }
	err := b.session.Run(t.Context(), b.request)
	require.ErrorContains(t, err, `\x1b]52`)
	assert.Equal(t, show.Printable(err.Error()), err.Error())
	data, err := os.ReadFile(b.report)
	require.NoError(t, err)
	assert.Equal(t, show.Printable(string(data)), string(data))
}
