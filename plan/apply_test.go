//go:build linux

package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// flag is an item that switches on to true.
type flag struct {
	id, phase string
	on        *bool
	err       error // of the action
	planErr   error
	stuck     bool // the action has no effect
	findings  []Finding
}

func (f flag) ID() string    { return f.id }
func (f flag) Phase() string { return f.phase }

func (f flag) Plan(context.Context, *host.Host) (Answer, error) {
	if f.planErr != nil || *f.on {
		return Answer{Findings: f.findings}, f.planErr
	}
	answer := Acts(Action{Verb: Write, Target: f.id, Reason: "it is off", Do: func(context.Context, Progress) error {
		*f.on = *f.on || f.err == nil && !f.stuck
		return f.err
	}})
	answer.Findings = f.findings
	return answer, nil
}

// fake is an item with any plan.
type fake struct {
	id, phase string
	plan      func() (Answer, error)
}

func (f fake) ID() string                                       { return f.id }
func (f fake) Phase() string                                    { return f.phase }
func (f fake) Plan(context.Context, *host.Host) (Answer, error) { return f.plan() }

// acting is an item that always has these actions to do.
func acting(id, phase string, actions ...Action) Item {
	return fake{id, phase, func() (Answer, error) { return Acts(actions...), nil }}
}

type log struct{ lines []string }

func (l *log) Begin(item, _ string, n int) {
	l.lines = append(l.lines, fmt.Sprintf("begin %s %d", item, n))
}
func (l *log) Progress(string, Action, int64, int64) {}
func (l *log) End(o Outcome)                         { l.lines = append(l.lines, fmt.Sprintf("end %s %s", o.Item, o.Status)) }

func TestAFailureSkipsLaterPhases(t *testing.T) {
	var a, b, c bool
	boom := errors.New("boom")
	outcomes, err := Apply(t.Context(), nil, []Item{
		flag{id: "a", phase: "1", on: &a, err: boom, findings: []Finding{{Target: "/x"}}},
		flag{id: "b", phase: "1", on: &b}, flag{id: "c", phase: "2", on: &c},
	}, &log{})
	require.ErrorIs(t, err, boom)
	assert.EqualError(t, err, "a: write a: boom")
	assert.Equal(t, []Finding{{Target: "/x"}}, outcomes[0].Findings)
	assert.Equal(t, []Status{Failed, Done, Skipped}, []Status{outcomes[0].Status, outcomes[1].Status, outcomes[2].Status})
	assert.False(t, c)
}

// What failed is not counted as done, in totals, phases and JSON.
func TestAFailedActionIsNotCounted(t *testing.T) {
	for entries, files := range map[int64]int{0: 0, 2: 1} {
		broken := Action{Verb: Remove, Target: "/x", Reason: "r", Hash: func() ([]FileHash, error) { return []FileHash{{Path: "/x"}}, nil },
			Take: func(context.Context) (host.Removal, error) { return host.Removal{Entries: entries}, errors.New("boom") }}
		outcomes, err := Apply(t.Context(), nil, []Item{acting("acting", "p", broken)}, &log{})
		require.Error(t, err)
		var r Report
		r.Applied(outcomes, err)
		assert.Equal(t, Totals{Items: 1, Removal: host.Removal{Entries: entries}}, r.Totals)
		assert.Equal(t, []PhaseTotals{{Phase: "p", Totals: r.Totals, Failed: 1}}, r.Phases)
		assert.True(t, outcomes[0].Actions[0].Failed)
		assert.Len(t, outcomes[0].Actions[0].Files, files)
	}
}

// Findings are reported. They do not stop an item's actions, and stay afterwards.
func TestFindingsAreReportedAndStay(t *testing.T) {
	var on bool
	both := flag{id: "a", phase: "1", on: &on, findings: []Finding{{"/y", "who knows"}}}
	list := Make(t.Context(), nil, []Item{both})
	require.Len(t, list, 1)
	assert.Len(t, list[0].Actions, 1)
	assert.Equal(t, both.findings, list[0].Findings)

	var l log
	for _, want := range []Status{Done, Unchanged} {
		outcomes, err := Apply(t.Context(), nil, []Item{both}, &l)
		require.NoError(t, err)
		assert.Equal(t, want, outcomes[0].Status)
		assert.Equal(t, both.findings, outcomes[0].Findings)
	}
	assert.Equal(t, []string{"begin a 1", "end a done", "begin a 0", "end a unchanged"}, l.lines)
	text, err := EncodeJSON(Make(t.Context(), nil, []Item{both}))
	require.NoError(t, err)
	assert.JSONEq(t, `[{"item": "a", "phase": "1", "findings": [{"target": "/y", "reason": "who knows"}]}]`, string(text))
}

// An error names its item and action, each once.
func TestErrorsNameItemAndActionOnce(t *testing.T) {
	var a bool
	for name, c := range map[string]struct {
		item flag
		want string
	}{
		"planning":                      {flag{id: "a", on: &a, planErr: errors.New("no passwd")}, "a: no passwd"},
		"an action":                     {flag{id: "a", on: &a, err: errors.New("boom")}, "a: write a: boom"},
		"an action, named in the error": {flag{id: "a", on: &a, err: errors.New("write a: boom")}, "a: write a: boom"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Apply(t.Context(), nil, []Item{c.item}, &log{})
			assert.EqualError(t, err, c.want)
		})
	}
}

func TestAnActionWithoutEffectIsAFailure(t *testing.T) {
	var a bool
	_, err := Apply(t.Context(), nil, []Item{flag{id: "a", phase: "1", on: &a, stuck: true}}, &log{})
	assert.EqualError(t, err, "a: verifying: still to do afterwards: write a (it is off)")
}

// An interrupt stops an item after the current action. Other items of the phase
// do not run.
func TestACancelledRunStopsBetweenActions(t *testing.T) {
	var b bool
	gone := errors.New("terminated")
	ctx, cancel := context.WithCancelCause(t.Context())
	several := acting("several", "1",
		Action{Verb: Write, Target: "first", Do: func(context.Context, Progress) error { cancel(gone); return nil }},
		Action{Verb: Write, Target: "second", Do: func(context.Context, Progress) error {
			t.Error("the second action ran after the interrupt")
			return nil
		}},
	)
	outcomes, err := Apply(ctx, nil, []Item{several, flag{id: "b", phase: "1", on: &b}}, &log{})
	require.EqualError(t, err, "several: stopping: terminated\nstopping before b: terminated")
	assert.Equal(t, []Status{Failed, Skipped}, []Status{outcomes[0].Status, outcomes[1].Status})
	assert.Len(t, outcomes[0].Actions, 1)
}

func TestReportResultsAndTotals(t *testing.T) {
	removed := Action{Verb: Remove, Target: "/x", Removal: host.Removal{Entries: 2, Bytes: 10}}
	finding := Finding{Target: "/y", Reason: "who knows"}
	for name, c := range map[string]struct {
		fill func(*Report)
		want Result
		code int
	}{
		"applied":           {func(r *Report) { r.Applied([]Outcome{{Status: Done, Actions: []Action{removed}}}, nil) }, OK, 0},
		"applied, findings": {func(r *Report) { r.Applied([]Outcome{{Status: Done, Findings: []Finding{finding}}}, nil) }, Findings, 1},
		"failed":            {func(r *Report) { r.Applied(nil, errors.New("x")) }, Failure, 1},
		"clean":             {func(r *Report) { r.Audited(nil, asked(3)) }, Clean, 0},
		"actions left":      {func(r *Report) { r.Audited([]Planned{{Actions: []Action{removed}}}, asked(3)) }, Findings, 1},
		"findings":          {func(r *Report) { r.Audited([]Planned{{Findings: []Finding{finding}}}, asked(3)) }, Findings, 1},
		"plan failed":       {func(r *Report) { r.Audited([]Planned{{Error: "x"}, {Actions: []Action{removed}}}, asked(3)) }, Unknown, 2},
		"dry run":           {func(r *Report) { r.Dry([]Planned{{Actions: []Action{removed}}}, asked(3)) }, DryRun, 0},
		"dry run failed":    {func(r *Report) { r.Dry([]Planned{{Error: "x"}}, asked(3)) }, Failure, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var r Report
			c.fill(&r)
			assert.Equal(t, c.want, r.Result)
			assert.Equal(t, c.code, r.Result.ExitCode())
		})
	}
	var r Report
	r.Applied([]Outcome{{Status: Done, Actions: []Action{removed, removed}}}, nil)
	assert.Equal(t, Totals{Items: 1, Changed: 1, Actions: 2, Removal: host.Removal{Entries: 4, Bytes: 20}}, r.Totals)
	r = Report{}
	r.Dry([]Planned{{Actions: []Action{removed}, Findings: []Finding{finding, finding}}}, asked(3))
	assert.Equal(t, Totals{Items: 3, Actions: 1, Findings: 2, Removal: removed.Removal}, r.Totals)
	require.Len(t, r.Phases, 1)
	assert.Equal(t, r.Totals, r.Phases[0].Totals)
	assert.Zero(t, r.Phases[0].Failed)
	r = Report{}
	r.Dry([]Planned{{Error: "x"}}, asked(3))
	assert.Equal(t, 1, r.Phases[0].Failed)
}

func asked(n int) []Check { return slices.Repeat([]Check{{Outcome: Passed}}, n) }

// A report lists every rule of an audit with its outcome.
func TestReportsListEveryRuleWithItsOutcome(t *testing.T) {
	on, off := true, false
	ctx, cancel := context.WithCancelCause(t.Context())
	notHere := func() (Answer, error) { return Answer{NotApplicable: "there is no such disk"}, nil }
	last := func() (Answer, error) { cancel(errors.New("gone")); return Answer{}, nil }
	items := []Item{
		flag{id: "clean", on: &on}, flag{id: "dirty", on: &off}, flag{id: "found", on: &on, findings: []Finding{{"/y", "who knows"}}},
		flag{id: "blind", on: &on, planErr: errors.New("no passwd")}, fake{"elsewhere", "", notHere},
		fake{"last", "", last}, flag{id: "late", on: &on}, flag{id: "later", on: &on},
	}
	var l log
	list, checks := Look(ctx, nil, items, &l)
	assert.Equal(t, []Check{
		{Item: "clean", Outcome: Passed},
		{Item: "dirty", Outcome: Found},
		{Item: "found", Outcome: Found},
		{Item: "blind", Outcome: Unchecked, Reason: "blind: no passwd"},
		{Item: "elsewhere", Outcome: NotApplicable, Reason: "there is no such disk"},
		{Item: "last", Outcome: Passed},
		{Item: "late", Outcome: Unchecked, Reason: "stopping before late: gone"},
		{Item: "later", Outcome: Unchecked, Reason: "stopping before late: gone"},
	}, checks)
	assert.Len(t, list, 4)
	assert.Contains(t, l.lines, "end blind failed")
}

// A report has the bytes of each download, their sum, and totals of each phase.
func TestReportsHaveFetchedBytesAndPhases(t *testing.T) {
	fetch := func(name string, size int64, err error) Item {
		done := false
		download := Action{Verb: Fetch, Target: name, Do: func(_ context.Context, progress Progress) error {
			progress(size/2, size)
			progress(size, size)
			done = err == nil
			return err
		}}
		return fake{name, "assets", func() (Answer, error) {
			if done {
				return Answer{}, nil
			}
			return Acts(download), nil
		}}
	}
	wipe := acting("wipe", "wipe", Action{Verb: Wipe, Target: "/", Do: func(_ context.Context, progress Progress) error {
		progress(99, 99)
		return nil
	}})
	outcomes, err := Apply(t.Context(), nil, []Item{
		fetch("kubelet", 100, nil), fetch("runc", 20, errors.New("cut off")), wipe,
	}, &log{})
	require.EqualError(t, err, "runc: fetch runc: cut off")
	var r Report
	r.Applied(outcomes, err)
	text, err := EncodeJSON(r)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"fetched": 120`)
	assert.Equal(t, int64(100), r.Outcomes[0].Actions[0].Fetched)
	assert.Equal(t, int64(20), r.Outcomes[1].Actions[0].Fetched, "bytes of a failed download")
	for i := range r.Phases {
		r.Phases[i].Milliseconds = 0
	}
	assert.Equal(t, []PhaseTotals{
		{Phase: "assets", Totals: Totals{Items: 2, Changed: 1, Actions: 1, Fetched: 120}, Failed: 1},
		{Phase: "wipe", Totals: Totals{Items: 1}, Skipped: 1},
	}, r.Phases)
	outcomes, err = Apply(t.Context(), nil, []Item{wipe}, &log{})
	require.Error(t, err, "the item always has something to do, so verifying must fail")
	assert.Zero(t, outcomes[0].Actions[0].Fetched, "bytes of a wipe must not count as fetched")
}

// The audit after a scrub decides the scrub's result, unless the audit only warns.
func TestAuditsDecideTheResultOfAScrub(t *testing.T) {
	secret := []Planned{{Item: "secrets", Findings: []Finding{{Target: "/y", Reason: "who knows"}}}}
	again := []Planned{{Item: "logs", Actions: []Action{{Verb: Empty, Target: "/var/log/x", Reason: "it logged"}}}}
	broken := []Planned{{Item: "x", Error: "x: no"}}
	left := []Outcome{{Item: "secrets", Status: Done, Findings: secret[0].Findings}}
	for name, c := range map[string]struct {
		outcomes []Outcome
		err      error
		audit    []Planned
		fails    bool
		want     Result
		text     string
		verdict  Result
	}{
		"clean":                 {nil, nil, nil, true, OK, "", Clean},
		"finding":               {nil, nil, secret, true, Findings, "a person has to decide, or skip the rule: /y (secrets): who knows", Findings},
		"known finding":         {left, nil, secret, true, Findings, "a person has to decide, or skip the rule: /y (secrets): who knows", Findings},
		"written again":         {nil, nil, again, true, Findings, "a running program has written again after the scrub, stop that program first: empty /var/log/x (logs)", Findings},
		"audit failed":          {nil, nil, broken, true, Unknown, "some checks of the audit could not run: x: no", Unknown},
		"audit failed, finding": {left, nil, broken, true, Unknown, "a person has to decide, or skip the rule: /y (secrets): who knows; some checks of the audit could not run: x: no", Unknown},
		"warning":               {nil, nil, secret, false, OK, "", Findings},
		"warning, audit failed": {nil, nil, broken, false, OK, "", Unknown},
		"warning, finding":      {left, nil, secret, false, Findings, "a person has to decide, or skip the rule: /y (secrets): who knows", Findings},
		"scrub failed":          {nil, errors.New("boom"), secret, true, Failure, "boom", Findings},
	} {
		t.Run(name, func(t *testing.T) {
			var r Report
			r.Applied(c.outcomes, c.err)
			r.Concluded(c.audit, asked(7), c.fails)
			assert.Equal(t, c.want, r.Result)
			assert.Equal(t, c.text, r.Error)
			assert.Equal(t, &Audit{Result: c.verdict, Items: 7, Plan: c.audit, Rules: asked(7), Error: map[bool]string{true: "x: no"}[c.verdict == Unknown]}, r.Audit)
		})
	}
}

// A dry run fails if its audit cannot run. Findings do not matter yet.
func TestFailedAuditsFailADryRun(t *testing.T) {
	for list, want := range map[*[]Planned]Result{
		{{Findings: []Finding{{Target: "/y"}}}}: DryRun, {{Error: "x: no"}}: Failure, {}: DryRun,
	} {
		var r Report
		r.Dry(nil, asked(3))
		r.Concluded(*list, asked(2), true)
		assert.Equal(t, want, r.Result)
	}
}

// An error lists a limited number of findings, because a machine can have any
// number.
func TestErrorsListALimitedNumberOfFindings(t *testing.T) {
	var r Report
	r.Applied([]Outcome{{Item: "i", Findings: slices.Repeat([]Finding{{Target: "/y", Reason: "x"}}, 1000)}}, nil)
	assert.Equal(t, "a person has to decide, or skip the rule: "+strings.Repeat("/y (i): x; ", namedMost)+"and 975 more", r.Error)
	assert.NotContains(t, firstOf(slices.Repeat([]string{"x"}, namedMost)), "more")
}

func TestACancelledContextStopsPlanning(t *testing.T) {
	var a bool
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("gone"))
	list := Make(ctx, nil, []Item{flag{id: "a", on: &a}, flag{id: "b", on: &a}})
	assert.Equal(t, []Planned{{Item: "a", Error: "stopping before a: gone"}}, list)
}
