//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/joshdk/go-junit"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

func outputOf(t *testing.T, format string, args ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	run(t.Context(), append(args, "--output", format), nil, &out, io.Discard)
	return out.Bytes()
}

// A JUnit library reads passed, failed and skipped rules.
func TestJUnitListsEveryRule(t *testing.T) {
	suites, err := junit.Ingest(outputOf(t, "junit", "audit", "--root", dirtyRoot(t), "--skip-rules", "kubelet-pki"))
	require.NoError(t, err)
	require.Len(t, suites, 1)
	byName := map[string]junit.Test{}
	for _, test := range suites[0].Tests {
		byName[test.Name] = test
	}
	for _, r := range scrub.Table() {
		assert.Contains(t, byName, r.ID)
	}
	assert.Equal(t, junit.StatusFailed, byName["hostname"].Status)
	assert.Equal(t, junit.StatusSkipped, byName["kubelet-pki"].Status)
	assert.Equal(t, "the options leave the rule out", byName["kubelet-pki"].Message)
	assert.Equal(t, junit.StatusPassed, byName["machine-id"].Status)
	totals := suites[0].Totals
	assert.Equal(t, len(suites[0].Tests), totals.Tests)
	assert.Positive(t, totals.Passed)
	assert.Positive(t, totals.Skipped)
	assert.Positive(t, totals.Failed)
}

// sarifLog is a SARIF log as its readers see it.
type sarifLog struct {
	Runs []struct {
		Tool    struct{ Driver struct{ Rules []sarifRule } }
		Results []struct {
			RuleID    string
			RuleIndex int
		}
	}
}

type sarifRule struct {
	ID, HelpURI string
	Help        struct{ Text, Markdown string }
	Short       struct{ Text string } `json:"shortDescription"`
	Full        struct{ Text string } `json:"fullDescription"`
	Properties  struct {
		Outcome plan.Verdict
		Tags    []string
	}
}

// SARIF output describes every rule, with help and a link.
func TestSARIFDescribesEveryRule(t *testing.T) {
	text := outputOf(t, "sarif", "audit", "--root", dirtyRoot(t), "--skip-rules", "kubelet-pki")
	log := testkit.JSON[sarifLog](t, text)
	described := map[string]sarifRule{}
	for _, r := range log.Runs[0].Tool.Driver.Rules {
		described[r.ID] = r
	}
	for _, r := range scrub.Table() {
		d := described[r.ID]
		assert.Equal(t, "https://github.com/eksnode/packer-plugin-eksnode/blob/main/docs/reference/rules.md#"+r.ID, d.HelpURI)
		assert.Contains(t, d.Help.Text, "--skip-rules "+r.ID)
		assert.Contains(t, d.Help.Markdown, d.HelpURI)
		assert.NotEmpty(t, d.Short.Text)
		assert.Contains(t, d.Full.Text, r.Why)
		tags := slices.Sorted(slices.Values(d.Properties.Tags))
		assert.Equal(t, slices.Compact(slices.Clone(tags)), tags, "SARIF requires unique tags")
	}
	assert.Equal(t, plan.Found, described["hostname"].Properties.Outcome)
	assert.Equal(t, plan.Passed, described["machine-id"].Properties.Outcome)
	assert.Equal(t, plan.LeftOut, described["kubelet-pki"].Properties.Outcome)
	require.NotEmpty(t, log.Runs[0].Results)
	for _, result := range log.Runs[0].Results {
		assert.Equal(t, result.RuleID, log.Runs[0].Tool.Driver.Rules[result.RuleIndex].ID)
	}
}

// A log is printed result by result, in the form of a log that is encoded at once.
func TestSARIFIsPrintedResultByResult(t *testing.T) {
	report := func(files int) plan.Report {
		r := plan.Report{Command: "audit", Result: plan.Findings, Tool: "1", Plan: []plan.Planned{{Item: "hostname", Error: "a\n\"results\": []"}}}
		for n := range files {
			r.Plan[0].Actions = append(r.Plan[0].Actions, plan.Action{Verb: plan.Remove, Target: fmt.Sprintf("/var/lib/\u202e/%d", n), Reason: "why"})
		}
		return r
	}
	for _, files := range []int{0, 1, 3} {
		var out bytes.Buffer
		require.NoError(t, report(files).Cases(scrub.About(nil, "audit")).SARIF(&out))
		assert.Len(t, testkit.JSON[sarifLog](t, out.Bytes()).Runs[0].Results, files+1)
		log := testkit.JSON[map[string]any](t, out.Bytes())
		whole, err := plan.EncodeJSON(log)
		require.NoError(t, err)
		assert.Equal(t, string(whole), out.String())
	}
	many := report(100_000)
	before := live()
	w := &peak{}
	require.NoError(t, many.Cases(scrub.About(nil, "audit")).SARIF(w))
	require.Greater(t, w.written, 30<<20)
	assert.Less(t, w.most-min(w.most, before), uint64(8<<20), "bytes in memory while the log is printed")
	runtime.KeepAlive(many)
}

// live is the number of bytes in memory that the program uses.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// peak is a writer that measures the memory in use every MiB.
type peak struct {
	written, next int
	most          uint64
}

func (p *peak) Write(text []byte) (int, error) {
	if p.written += len(text); p.written >= p.next {
		p.most, p.next = max(p.most, live()), p.written+1<<20
	}
	return len(text), nil
}

func reportSchema() (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	return c.Compile("../../docs/reference/report.schema.json")
}

// validReport is the script command `report FILE...`. Each file must match the
// published schema. With "!", no file may match.
func validReport(schema *jsonschema.Schema) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		for _, name := range args {
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(ts.ReadFile(name))))
			ts.Check(err)
			err = schema.Validate(value)
			if neg && err == nil {
				ts.Fatalf("%s matches the schema of reports", name)
			}
			if !neg && err != nil {
				ts.Fatalf("%s does not match the schema of reports: %v", name, err)
			}
		}
	}
}

// fullReport returns a report with a value in every field.
func fullReport() plan.Report {
	now := time.Unix(0, 0).UTC()
	gone := host.Removal{Entries: 1, Bytes: 4096}
	actions := []plan.Action{
		{Verb: plan.Remove, Target: "/x", Reason: "old", Removal: gone, Files: []plan.FileHash{{Path: "/x", Size: 1, SHA256: "0a"}}},
		{Verb: plan.Fetch, Target: "/usr/bin/kubelet", Reason: "not installed", Fetched: 10},
		{Verb: plan.Install, Target: "runc", Reason: "container runtime", Packages: []string{"runc"}},
	}
	findings := []plan.Finding{{Target: "/y", Reason: "unknown"}}
	r := plan.Begun("scrub", "0.1.0", "/", now)
	r.Build, r.Finished = "null.x", now
	r.Machine = plan.Machine{Distro: "debian", Version: "12", Arch: "amd64", Root: "/"}
	planned := []plan.Planned{{Item: "b", Phase: "state", Actions: actions, Findings: findings, Error: "b: no"}}
	checks := []plan.Check{
		{Item: "a", Phase: "state", Outcome: plan.Passed}, {Item: "b", Phase: "state", Outcome: plan.Unchecked, Reason: "b: no"},
		{Item: "c", Phase: "state", Outcome: plan.Found}, {Item: "d", Phase: "state", Outcome: plan.LeftOut, Reason: "left out"},
		{Item: "e", Phase: "state", Outcome: plan.NotApplicable, Reason: "no disk"},
	}
	r.Audited(planned, checks)
	r.Rules = checks
	var outcomes []plan.Outcome
	for _, s := range []plan.Status{plan.Done, plan.Unchanged, plan.Failed, plan.Skipped} {
		outcomes = append(outcomes, plan.Outcome{Item: "a", Phase: "state", Status: s, Actions: actions, Findings: findings, Error: "x", Milliseconds: 7})
	}
	r.Applied(outcomes, errors.New("x"))
	r.Concluded(planned, checks, true)
	r.Image = &plan.Contents{
		Kubernetes: "1.34.4", Components: []plan.Component{{Name: "kubelet", Version: "1.34.4", Origin: plan.FromDownload, Bytes: 10}},
		Packages: []plan.Package{{Name: "runc", Version: "1", Added: true}}, Images: []plan.ImageContents{{Name: "pause", Digest: "sha256:0a", Bytes: 1}},
	}
	r.Omitted = 1
	return r
}

// The schema accepts a report with all fields and refuses reports with one mistake.
func TestTheSchemaRefusesWrongReports(t *testing.T) {
	schema, err := reportSchema()
	require.NoError(t, err)
	decoded := func() map[string]any {
		text, err := plan.EncodeJSON(fullReport())
		require.NoError(t, err)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		return value.(map[string]any)
	}
	require.NoError(t, schema.Validate(decoded()))
	for name, wrong := range map[string]func(map[string]any){
		"another schema version":   func(r map[string]any) { r["schema"] = "eksnode.report/v2" },
		"no result":                func(r map[string]any) { delete(r, "result") },
		"an unknown result":        func(r map[string]any) { r["result"] = "fine" },
		"an unknown command":       func(r map[string]any) { r["command"] = "join" },
		"an unknown field":         func(r map[string]any) { r["resutl"] = "ok" },
		"a number as text":         func(r map[string]any) { r["totals"].(map[string]any)["fetched"] = "10" },
		"a negative number":        func(r map[string]any) { r["totals"].(map[string]any)["fetched"] = json.Number("-1") },
		"no fetched bytes":         func(r map[string]any) { delete(r["totals"].(map[string]any), "fetched") },
		"a time as a number":       func(r map[string]any) { r["started"] = json.Number("7") },
		"an invalid time":          func(r map[string]any) { r["started"] = "yesterday" },
		"an unknown verb":          func(r map[string]any) { at(r, "outcomes", "actions")["verb"] = "delete" },
		"an unknown status":        func(r map[string]any) { at(r, "outcomes")["status"] = "ok" },
		"an unknown outcome":       func(r map[string]any) { at(r, "rules")["outcome"] = "ok" },
		"a rule without outcome":   func(r map[string]any) { delete(at(r, "rules"), "outcome") },
		"a finding without reason": func(r map[string]any) { delete(at(r, "outcomes", "findings"), "reason") },
		"outcomes as an object":    func(r map[string]any) { r["outcomes"] = map[string]any{} },
		"no machine":               func(r map[string]any) { delete(r, "machine") },
	} {
		t.Run(name, func(t *testing.T) {
			r := decoded()
			wrong(r)
			assert.Error(t, schema.Validate(r))
		})
	}
}

// at returns the first element of a list, or of nested lists.
func at(r map[string]any, lists ...string) map[string]any {
	for _, name := range lists {
		r = r[name].([]any)[0].(map[string]any)
	}
	return r
}
