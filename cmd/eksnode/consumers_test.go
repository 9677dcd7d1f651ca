//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"

	"github.com/joshdk/go-junit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// outputOf runs eksnode with an output format and returns the output.
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

// SARIF output describes every rule, with help and a link.
func TestSARIFDescribesEveryRule(t *testing.T) {
	var log sarifLog
	d := json.NewDecoder(bytes.NewReader(outputOf(t, "sarif", "audit", "--root", dirtyRoot(t), "--skip-rules", "kubelet-pki")))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&log))
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
		require.NoError(t, reportSARIF(report(files), nil).print(&out))
		var log sarifLog
		require.NoError(t, json.Unmarshal(out.Bytes(), &log))
		assert.Len(t, log.Runs[0].Results, files+1)
		whole, err := plan.EncodeJSON(log)
		require.NoError(t, err)
		assert.Equal(t, string(whole), out.String())
	}
	many := report(100_000)
	before := live()
	w := &peak{}
	require.NoError(t, reportSARIF(many, nil).print(w))
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
