package remote

import (
	"strings"
	"testing"
	"time"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/agent"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// stage is a console whose clock a test turns.
type stage struct {
	*console
	clock time.Time
	text  strings.Builder
}

func newStage() *stage {
	s := &stage{clock: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
	s.console = newConsole(&packersdk.BasicUi{Writer: &s.text}, func() time.Time { return s.clock })
	return s
}

func (s *stage) after(d time.Duration) *stage { s.clock = s.clock.Add(d); return s }

func (s *stage) lines() []string {
	lines := strings.Split(strings.TrimSuffix(s.text.String(), "\n"), "\n")
	s.text.Reset()
	return lines
}

// An item that is silent for long gives a sign of life, also when nothing of
// it can be counted.
func TestTick(t *testing.T) {
	s := newStage()
	s.begin(agent.Event{Item: "packages", Phase: "install", Actions: 3})
	assert.Equal(t, []string{"Phase: install"}, s.lines())
	s.after(silenceMost - time.Second).tick()
	assert.Equal(t, []string{""}, s.lines())
	s.after(time.Second).tick()
	assert.Equal(t, []string{"  packages: still working after 20.0 s"}, s.lines())
	s.after(5 * time.Second).tick()
	assert.Equal(t, []string{""}, s.lines())
	s.after(55 * time.Second).tick()
	assert.Equal(t, []string{"  packages: still working after 1 min 20 s"}, s.lines())
	s.end(plan.Outcome{Item: "packages", Phase: "install", Status: plan.Done, Milliseconds: 80_000})
	assert.Equal(t, []string{"  packages                     done      1 min 20 s"}, s.lines())
	s.after(time.Hour).tick()
	assert.Equal(t, []string{""}, s.lines(), "nothing is running")
}

// A phase is told once, and not at all where its item says the same.
func TestPhases(t *testing.T) {
	s := newStage()
	for _, o := range []plan.Outcome{
		{Item: "packages", Phase: "packages"}, {Item: "kubelet-pki", Phase: "state"}, {Item: "kubelet-pods", Phase: "state"}, {Item: "kubelet", Phase: "kubelet"},
	} {
		o.Status = plan.Unchanged
		s.begin(agent.Event{Item: o.Item, Phase: o.Phase})
		s.end(o)
	}
	assert.Equal(t, []string{
		"  packages                     unchanged 0 ms",
		"Phase: state",
		"  kubelet-pki                  unchanged 0 ms",
		"  kubelet-pods                 unchanged 0 ms",
		"  kubelet                      unchanged 0 ms",
	}, s.lines())
}

func TestProgressWithoutATotal(t *testing.T) {
	s := newStage()
	s.begin(agent.Event{Item: "kubelet"})
	s.after(progressEvery).progress(agent.Event{Item: "kubelet", Done: 1_500_000})
	assert.Equal(t, []string{"  kubelet: kubelet: 1.5 MB"}, s.lines())
}

// Two downloads of one item count both, each once.
func TestEndSumsUpWhatWasFetched(t *testing.T) {
	s := newStage()
	s.begin(agent.Event{Item: "assets"})
	for _, target := range []string{"kubelet", "cni-plugins"} {
		a := &plan.Action{Verb: plan.Fetch, Target: target}
		s.progress(agent.Event{Item: "assets", Action: a, Done: 1_000_000, Total: 20_000_000})
		s.progress(agent.Event{Item: "assets", Action: a, Done: 20_000_000, Total: 20_000_000})
	}
	s.end(plan.Outcome{Item: "assets", Status: plan.Done, Milliseconds: 900})
	assert.Equal(t, []string{"  assets                       done      900 ms, fetched 40.0 MB"}, s.lines())
}

func TestEndOfAFailure(t *testing.T) {
	s := newStage()
	s.end(plan.Outcome{Item: "kubelet", Phase: "assets", Status: plan.Failed, Error: "kubelet: fetch kubelet: no route", Milliseconds: 3})
	assert.Equal(t, []string{"Phase: assets", "  kubelet                      failed    3 ms: fetch kubelet: no route"}, s.lines())
}

func TestFinishOfADryRun(t *testing.T) {
	s := newStage()
	r := &plan.Report{Command: "scrub", Result: plan.DryRun, Started: s.clock, Finished: s.clock.Add(1500 * time.Millisecond)}
	r.Totals = plan.Totals{Items: 4, Actions: 2, Removal: host.Removal{Entries: 3, Bytes: 2000}}
	r.Plan = []plan.Planned{
		{Item: "machine-id", Phase: "identity", Actions: []plan.Action{{Verb: plan.Empty, Target: "/etc/machine-id", Reason: "every node would have it"}}},
		{Item: "keys", Phase: "identity", Findings: []plan.Finding{{Target: "/etc/key", Reason: "nothing makes it again"}}},
		{Item: "logs", Phase: "caches", Error: "logs: no route"},
	}
	r.Audit = &plan.Audit{Result: plan.Findings, Items: 9, Plan: []plan.Planned{
		{Item: "secrets-left", Phase: "inspect", Findings: []plan.Finding{{Target: "/opt/app.conf", Reason: "line 1 contains a token"}}},
	}}
	s.finish(r)
	assert.Equal(t, []string{
		"Phase: identity",
		"  machine-id: would empty /etc/machine-id (every node would have it)",
		"  keys: for you to decide: /etc/key (nothing makes it again)",
		"Phase: caches",
		"  logs: no route",
		"Phase: inspect",
		"  secrets-left: for you to decide: /opt/app.conf (line 1 contains a token)",
		"scrub planned: 4 items, 0 changed, 2 actions, 3 files and folders to go (2.0 kB), 1.5 s",
		"audit findings: 1 left, found by 1 of 9 rules",
	}, s.lines())
}

// The last line says what became of the audit.
func TestFinishOfAScrub(t *testing.T) {
	for name, c := range map[string]struct {
		report plan.Report
		last   string
	}{
		"clean":   {plan.Report{Result: plan.OK, Audit: &plan.Audit{Result: plan.Clean, Items: 96}}, "audit clean: nothing left by 96 rules"},
		"unknown": {plan.Report{Result: plan.Unknown, Audit: &plan.Audit{Result: plan.Unknown, Items: 96, Error: "x: no", Plan: []plan.Planned{{Item: "x", Error: "x: no"}}}}, "audit unknown: 0 left, found by 1 of 96 rules; could not look: x: no"},
		"off":     {plan.Report{Result: plan.OK}, plan.NoAudit},
		"failed":  {plan.Report{Result: plan.Failure}, "scrub failed: 0 items, 0 changed, 0 actions, 0 ms"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage()
			c.report.Command = "scrub"
			s.finish(&c.report)
			lines := s.lines()
			assert.Equal(t, c.last, lines[len(lines)-1])
		})
	}
}
