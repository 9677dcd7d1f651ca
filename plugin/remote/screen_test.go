//go:build linux

package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/console"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
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
	talk := &conversation{heard: heard{begun: true}, private: Config{}.private, begin: func() {}, console: c,
		version: "1", hangUp: func() {}}
	for _, e := range []agent.Event{
		{Kind: agent.Hello, Message: "1 " + osc52},
		{Kind: agent.Begin, Item: osc52, Phase: osc52, Actions: 1},
		{Kind: agent.Progress, Item: osc52, Action: &hostile, Done: 1, Total: 2},
		{Kind: agent.Warning, Message: osc52},
		{Kind: agent.End, Outcome: &plan.Outcome{Item: osc52, Phase: osc52, Status: osc52, Error: osc52,
			Findings: found}},
		{Kind: agent.End, Outcome: &plan.Outcome{Item: osc52, Phase: "x", Status: plan.Failed, Error: osc52}},
		{Kind: agent.Finished, Report: &plan.Report{
			Command: osc52, Result: osc52, Warnings: []string{osc52 + "\nforged: line"},
			Plan: []plan.Planned{{Item: osc52, Phase: osc52, Error: osc52, Actions: []plan.Action{hostile},
				Findings: found}},
			Audit: &plan.Audit{Result: osc52, Error: osc52,
				Plan: []plan.Planned{{Item: osc52, Actions: []plan.Action{hostile}, Findings: found}}},
		}},
	} {
		line, err := json.Marshal(e)
		require.NoError(t, err)
		talk.line(line)
	}
	talk.aside([]byte(osc52))
	require.NoError(t, talk.soFar().err)
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

func TestFindingsOfAnAuditNameItsRules(t *testing.T) {
	r := plan.Report{Command: string(agent.Audit)}
	r.Audited([]plan.Planned{
		{Item: "kubelet-pki", Actions: []plan.Action{{Verb: plan.Remove, Target: "/var/lib/kubelet/pki/x"}}},
		{Item: "secrets-left", Findings: []plan.Finding{{Target: "/opt/x"}}},
	}, nil)
	err := new(Session).verdict(nil, heard{begun: true, report: &r}, ending{status: r.Result.ExitCode()}, "")
	assert.EqualError(t, err, "audit findings: a person has to decide: the findings are above; "+
		`resolve them, or set skip_rules = ["kubelet-pki", "secrets-left"]`)
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
	b.machine.Shell = func(string) *exec.Cmd {
		return exec.Command("/bin/sh", "-c", `printf '%s' "$0" >&2; exit 1`,
			osc52)
	}
	err := b.session.Run(t.Context(), b.request)
	require.ErrorContains(t, err, `\x1b]52`)
	assert.Equal(t, show.Printable(err.Error()), err.Error())
	data := testkit.Content(t, b.report)
	assert.Equal(t, show.Printable(data), data)
}

// An interrupted Packer kills its plugins. So the report file must say "unfinished"
// while the agent runs.
func TestReportsAreUnfinishedWhileTheAgentRuns(t *testing.T) {
	b := newBench(t, "wait").overSSH()
	testkit.Write(t, b.report, `{"result":"ok"}`)
	over := make(chan error, 1)
	go func() { over <- b.session.Run(t.Context(), b.request) }()
	pid := b.pid()
	r := b.kept()
	assert.Equal(t, plan.Unfinished, r.Result)
	assert.Equal(t, "null.machine", r.Build)
	assert.Equal(t, "provision", r.Command)
	b.machine.Cut()
	require.Error(t, <-over)
	gone(t, pid)
	assert.Equal(t, plan.Failure, b.kept().Result)
	assert.Equal(t, "null.machine", b.kept().Build)
}

// Two provisioners must not share a report file, even one after the other.
func TestTwoProvisionersCannotShareAReport(t *testing.T) {
	first := newBench(t, "done").overSSH()
	require.NoError(t, first.session.Run(t.Context(), first.request))
	for _, build := range []string{"null.machine", "null.other"} { // renamed sources have the original's name
		second := newBench(t, "done").overSSH()
		second.session.Config.Report, second.session.Build = first.report, build
		require.EqualError(t, second.session.Run(t.Context(), second.request),
			"report: "+first.report+" keeps the report of the provision of the build null.machine, which has not "+
				"ended; give each provisioner and each build a file of its own, such as "+
				filepath.Dir(first.report)+"/report-${source.name}.json")
		assert.Empty(t, second.machine.Asked())
	}
	assert.Equal(t, plan.OK, first.kept().Result)

	require.NoError(t, first.session.Run(t.Context(), first.request),
		"a retry of the same provisioner may write the report again")
	require.NoError(t, first.session.Kept.file.Close())
	third := newBench(t, "done").overSSH()
	third.session.Config.Report = first.report
	require.NoError(t, third.session.Run(t.Context(), third.request),
		"the file is free after the first process has ended")
}

func TestReportsAreReplacedAtomically(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "report.json")
	var k Kept
	begun := plan.Begun("scrub", "1", "/", time.Unix(0, 0))
	require.NoError(t, k.begin(path, begun))
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o755))
	require.NoError(t, k.write(plan.Report{Result: plan.OK}))
	assert.True(t, json.Valid([]byte(testkit.Content(t, path))))
	assert.Len(t, testkit.Names(t, filepath.Dir(path)), 1, "no temporary file may stay")
	st, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), st.Mode().Perm())

	require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	require.ErrorContains(t, k.write(plan.Report{}), "writing the report: open ")
}

func TestPrepareRefusesUnwritableReports(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	folder, readOnly := t.TempDir(), t.TempDir()
	require.NoError(t, unix.Mount("none", readOnly, "tmpfs", unix.MS_RDONLY, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(readOnly, 0)) })
	for path, want := range map[string]string{
		folder: "report: " + folder + " is a folder; name a file in it, such as " + folder +
			"/report.json",
		"/dev/null": "report: /dev/null is not a regular file, which a report would replace",
		readOnly + "/a/x.json": "report: " + readOnly + "/a/x.json cannot be written: the folder " + readOnly +
			": read-only file system",
		"~you/x":            "report: ~you/x begins with ~you: only ~/ is replaced by a home folder",
		"/dev/null/x.json":  "report: /dev/null is not a folder, so /dev/null/x.json cannot be written",
		"~/reports/ok.json": "",
	} {
		c := Config{Report: path}
		err := c.Prepare()
		if want == "" {
			require.NoError(t, err)
			assert.Equal(t, filepath.Join(os.Getenv("HOME"), "reports/ok.json"), c.Report)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

// The ending of a report's name chooses its form, as for --report of the command.
func TestAReportCanBeASummary(t *testing.T) {
	for name, want := range map[string]string{"r.json": `"command": "scrub"`, "r.md": "## ` scrub `: ok",
		"r.html": "<h2>scrub: "} {
		path := filepath.Join(t.TempDir(), name)
		var k Kept
		require.NoError(t, k.begin(path, plan.Report{Command: "scrub", Result: plan.Unfinished}))
		require.NoError(t, k.write(plan.Report{Command: "scrub", Result: plan.OK}))
		require.NoError(t, k.file.Close())
		assert.Contains(t, testkit.Content(t, path), want)
	}
}
