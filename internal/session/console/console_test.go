package console

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// stage is a console whose clock a test turns, and the lines that it printed.
type stage struct {
	*Console
	clock time.Time
	text  []string
}

func (s *stage) Say(line string)   { s.text = append(s.text, line) }
func (s *stage) Error(line string) { s.text = append(s.text, "! "+line) }

func newStage(o Options) *stage {
	s := &stage{clock: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
	o.Now = func() time.Time { return s.clock }
	s.Console = New(s, o)
	return s
}

func (s *stage) after(d time.Duration) *stage { s.clock = s.clock.Add(d); return s }

func (s *stage) lines() []string {
	lines := s.text
	s.text = nil
	return lines
}

// assertPrinted compares lines with those of the test in testdata/printed.txt.
func assertPrinted(t *testing.T, lines []string) {
	t.Helper()
	_, want, found := strings.Cut(testkit.Content(t, "testdata/printed.txt"), "\n== "+t.Name()+"\n")
	require.True(t, found)
	want, _, _ = strings.Cut(want, "\n\n")
	assert.Equal(t, strings.TrimSuffix(want, "\n"), strings.Join(lines, "\n"))
}

func (s *stage) run(outcomes ...plan.Outcome) {
	for _, o := range outcomes {
		s.Begin(o.Item, o.Phase, len(o.Actions))
		s.End(o)
	}
}

// outcomes are those of a scrub.
func outcomes() []plan.Outcome {
	removed := func(files, bytes int64) []plan.Action {
		return []plan.Action{{Verb: plan.Remove, Target: "/x", Reason: "old", Removal: host.Removal{Entries: files, Bytes: bytes}}}
	}
	return []plan.Outcome{
		{Item: "kubelet-running", Phase: "quiesce", Status: plan.Unchanged},
		{Item: "kubelet-pki", Phase: "state", Status: plan.Unchanged},
		{Item: "kubelet-pods", Phase: "state", Status: plan.Unchanged},
		{Item: "hostname", Phase: "identity", Status: plan.Done, Actions: removed(1, 4096), Milliseconds: 3},
		{Item: "machine-id", Phase: "identity", Status: plan.Done, Actions: removed(0, 33), Milliseconds: 4},
		{Item: "keys", Phase: "identity", Status: plan.Unchanged, Findings: []plan.Finding{{Target: "/etc/key", Reason: "nothing makes it again"}}},
		{Item: "journal", Phase: "caches and logs", Status: plan.Done, Actions: removed(2, 16_800_000), Milliseconds: 1200},
	}
}

// A scrub prints rules that changed something or need attention, then one line
// for each phase.
func TestPhases(t *testing.T) {
	s := newStage(Options{Command: "scrub", Details: true})
	s.run(outcomes()...)
	s.Close()
	assertPrinted(t, s.lines())
}

// Each step of a provision is a phase of its own, and needs one line.
func TestSteps(t *testing.T) {
	s := newStage(Options{Command: "provision"})
	s.run(
		plan.Outcome{Item: "requirements", Phase: "requirements", Status: plan.Unchanged},
		plan.Outcome{Item: "packages", Phase: "packages", Status: plan.Done, Milliseconds: 28_900, Actions: []plan.Action{
			{Verb: plan.Run, Target: "apt-get update"}, {Verb: plan.Install, Target: "containerd runc", Packages: []string{"containerd", "runc"}},
		}},
		plan.Outcome{Item: "kubelet", Phase: "kubelet", Status: plan.Done, Milliseconds: 1100, Actions: []plan.Action{{Verb: plan.Fetch, Target: "/usr/bin/kubelet", Fetched: 83_500_000}}},
		plan.Outcome{Item: "swap", Phase: "swap", Status: plan.Unchanged},
	)
	s.Close()
	assertPrinted(t, s.lines())
}

// Verbose prints every item and action, and phases as headings.
func TestVerbose(t *testing.T) {
	s := newStage(Options{Command: "scrub", Verbose: true})
	s.run(outcomes()[2:4]...)
	s.Close()
	assertPrinted(t, s.lines())
}

// A run that prints nothing for long gives a sign of life, also when many short
// items follow each other, and while an item is planned.
func TestTick(t *testing.T) {
	s := newStage(Options{Command: "scrub"})
	s.Tick()
	s.Begin("packages", "install", 3)
	s.after(silenceMost - time.Second).Tick()
	assert.Empty(t, s.lines())
	s.after(time.Second).Tick()
	assert.Equal(t, []string{"  packages: still working after 20.0 s"}, s.lines())
	s.after(5 * time.Second).Tick()
	assert.Empty(t, s.lines())
	s.after(55 * time.Second).Tick()
	assert.Equal(t, []string{"  packages: still working after 1 min 20 s"}, s.lines())
	s.End(plan.Outcome{Item: "packages", Phase: "install", Status: plan.Unchanged})
	for range 3 {
		s.Begin("logs", "install", 0)
		s.after(7 * time.Second).End(plan.Outcome{Item: "logs", Phase: "install", Status: plan.Unchanged})
	}
	s.Tick()
	assert.Equal(t, []string{"  still working"}, s.lines())
	s.Close()
	assert.Equal(t, []string{"install: 4 rules, nothing to remove"}, s.lines())
	s.after(time.Hour).Tick()
	assert.Empty(t, s.lines(), "nothing is running")
}

func TestProgress(t *testing.T) {
	s := newStage(Options{})
	s.Begin("kubelet", "", 1)
	s.after(progressEvery).Progress("kubelet", plan.Action{Target: "kubelet"}, 1_500_000, 0)
	s.Progress("kubelet", plan.Action{Target: "kubelet"}, 1_600_000, 0)
	s.after(progressEvery).Progress("kubelet", plan.Action{Verb: plan.Fetch, Target: "/usr/bin/kubelet"}, 2_000_000, 4_000_000)
	assert.Equal(t, []string{"  kubelet: kubelet: 1.5 MB", "  kubelet: fetch /usr/bin/kubelet: 2.0 MB of 4.0 MB (50 %)"}, s.lines())
}

// The error of a failed item is printed at once, or by the caller at the end.
func TestFailures(t *testing.T) {
	failed := plan.Outcome{Item: "kubelet", Phase: "assets", Status: plan.Failed, Error: "kubelet: fetch kubelet: no route", Milliseconds: 3}
	s := newStage(Options{Command: "provision", Details: true})
	s.run(failed)
	s.Close()
	assert.Equal(t, []string{"!   kubelet: failed after 3 ms: fetch kubelet: no route", "assets: 1 step, 1 failed, 3 ms"}, s.lines())
	s = newStage(Options{Command: "provision"})
	s.run(failed)
	assert.Equal(t, []string{"!   kubelet: failed after 3 ms"}, s.lines())
}

func TestFinishOfADryRun(t *testing.T) {
	s := newStage(Options{Command: "scrub", Details: true})
	r := &plan.Report{Command: "scrub", Started: s.clock, Finished: s.clock.Add(1500 * time.Millisecond)}
	r.Dry([]plan.Planned{
		{Item: "machine-id", Phase: "identity", Actions: []plan.Action{{Verb: plan.Empty, Target: "/etc/machine-id", Reason: "every node would have it", Removal: host.Removal{Entries: 3, Bytes: 2000}}}},
		{Item: "keys", Phase: "identity", Findings: []plan.Finding{{Target: "/etc/key", Reason: "nothing makes it again"}}},
	}, make([]plan.Check, 0))
	r.Audit = &plan.Audit{Result: plan.Findings, Items: 9, Plan: []plan.Planned{
		{Item: "secrets-left", Phase: "inspect", Findings: []plan.Finding{{Target: "/opt/app.conf", Reason: "line 1 holds a token"}}},
	}}
	s.Finish(r)
	assertPrinted(t, s.lines())
}

// The closing audit prints only what the scrub has not printed.
func TestFinishOfAScrub(t *testing.T) {
	s := newStage(Options{Command: "scrub", Details: true})
	r := &plan.Report{Command: "scrub", Started: s.clock, Finished: s.clock}
	r.Applied(outcomes(), nil)
	left := []plan.Planned{
		{Item: "keys", Phase: "identity", Findings: []plan.Finding{{Target: "/etc/key", Reason: "nothing makes it again"}, {Target: "/etc/key2", Reason: "new"}}},
		{Item: "hostname", Phase: "identity", Actions: []plan.Action{{Verb: plan.Remove, Target: "/etc/hostname", Reason: "it is back"}}},
	}
	r.Concluded(left, make([]plan.Check, 96), true)
	s.Finish(r)
	assertPrinted(t, s.lines())
}

// The last line is the audit's.
func TestAuditLine(t *testing.T) {
	unknown := []plan.Planned{{Item: "x", Error: "x: no"}}
	for name, c := range map[string]struct {
		report plan.Report
		last   string
	}{
		"clean":     {plan.Report{Result: plan.OK, Audit: &plan.Audit{Result: plan.Clean, Items: 96}}, "audit clean: 96 rules, nothing left"},
		"one rule":  {plan.Report{Result: plan.OK, Audit: &plan.Audit{Result: plan.Clean, Items: 1}}, "audit clean: 1 rule, nothing left"},
		"unknown":   {plan.Report{Result: plan.Unknown, Audit: &plan.Audit{Result: plan.Unknown, Items: 96, Error: "x: no", Plan: unknown}}, "audit unknown: 96 rules, 0 findings; 1 rule could not run"},
		"off":       {plan.Report{Result: plan.OK}, plan.NoAudit},
		"failed":    {plan.Report{Result: plan.Failure}, ""},
		"a dry run": {plan.Report{Result: plan.DryRun}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.report.Command = "scrub"
			assert.Equal(t, c.last, AuditLine(&c.report))
		})
	}
}

// The closing table of a provision has everything that the report says about
// the image.
func TestContents(t *testing.T) {
	r := &plan.Report{Command: "provision", Image: &plan.Contents{
		Kubernetes: "1.34.4",
		Components: []plan.Component{
			{Name: "kubelet", Version: "1.34.4", Origin: plan.FromDownload, Bytes: 58_400_000},
			{Name: "containerd", Version: "1.6.20~ds1-1+deb12u1", Origin: plan.FromPackage},
		},
		Packages: []plan.Package{{Name: "containerd", Added: true}, {Name: "runc"}},
		Images:   []plan.ImageContents{{Name: "localhost/kubernetes/pause:latest", Bytes: 700_000}},
	}}
	r.Totals.Fetched = 134_000_000
	assertPrinted(t, Table(r))
}

// A scrub that removed nothing says so.
func TestNothingRemoved(t *testing.T) {
	r := &plan.Report{Command: "scrub"}
	r.Applied(outcomes()[:2], nil)
	assert.Equal(t, []string{"The scrub removed nothing."}, Table(r))
	assert.Empty(t, Table(&plan.Report{Command: "audit", Phases: r.Phases}))
	assert.Empty(t, Table(&plan.Report{Command: "scrub"}), "the scrub did not start")
}

// Many lines of one item are cut.
func TestLinesOfAnItemAreBounded(t *testing.T) {
	s := newStage(Options{Command: "scrub", Details: true})
	s.run(plan.Outcome{Item: "x", Phase: "y", Status: plan.Unchanged, Findings: slices.Repeat([]plan.Finding{{Target: "/z"}}, targetsMost+2)})
	lines := s.lines()
	assert.Len(t, lines, targetsMost+1)
	assert.Equal(t, "  x: and 2 more; the report has all", lines[targetsMost])
}

// One of a thing is singular in every line.
func TestSingularAndPlural(t *testing.T) {
	for n := range int64(3) {
		p := plan.PhaseTotals{Phase: "x", Totals: plan.Totals{Items: int(n), Changed: int(n), Findings: int(n), Removal: host.Removal{Entries: n, Bytes: n}}}
		line := PhaseLine("scrub", p)
		assert.Equal(t, n == 1, strings.Contains(line, "1 rule,") && strings.Contains(line, "1 file (") && strings.Contains(line, "1 finding"), line)
		assert.NotContains(t, line, fmt.Sprintf("%d(s)", n))
	}
}

// Warnings come before the closing table, as lines that Packer colours.
func TestFinishPrintsWarnings(t *testing.T) {
	s := newStage(Options{Command: "provision"})
	s.Finish(&plan.Report{Command: "provision", Result: plan.OK, Warnings: []string{"support of X ended on 2026-06-30"}})
	assert.Equal(t, "!   warning: support of X ended on 2026-06-30", s.lines()[0])
}

func TestTransfersHaveRateAndTimeLeft(t *testing.T) {
	now := time.Unix(0, 0)
	transfer := Transfer{Now: func() time.Time { return now }, Every: 10 * time.Second}
	const mb = 1_000_000
	for _, c := range []struct {
		after       time.Duration
		done, moved int64
		want        string
	}{
		{0, 0, 0, ""}, // the clock starts
		{9 * time.Second, 90 * mb, 9 * mb, ""},
		{time.Second, 100 * mb, 10 * mb, "10 % of 1.0 GB, 1.0 MB/s, 1 min 30 s left"},
		{10 * time.Second, 200 * mb, 110 * mb, "20 % of 1.0 GB, 5.5 MB/s, 1 min 20 s left"},
		{10 * time.Second, 300 * mb, 210 * mb, "30 % of 1.0 GB, 10.0 MB/s, 1 min 10 s left"}, // of the last 20 seconds
		{20 * time.Second, 300 * mb, 210 * mb, "30 % of 1.0 GB, 0.0 MB/s"},                   // nothing moved
		{10 * time.Second, 1000 * mb, 310 * mb, "100 % of 1.0 GB, 3.3 MB/s"},
	} {
		now = now.Add(c.after)
		line, due := transfer.line(c.done, c.moved, 1000*mb)
		assert.Equal(t, c.want, line)
		assert.Equal(t, c.want != "", due)
	}
}

func TestATransferOfUnknownSize(t *testing.T) {
	now := time.Unix(0, 0)
	transfer := Transfer{Now: func() time.Time { return now }}
	transfer.line(0, 0, 0)
	now = now.Add(10 * time.Second)
	line, due := transfer.line(20_000_000, 20_000_000, 0)
	assert.True(t, due)
	assert.Equal(t, "20.0 MB, 2.0 MB/s", line)
}
