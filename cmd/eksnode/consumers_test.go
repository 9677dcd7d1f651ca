//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
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
