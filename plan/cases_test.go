package plan

import (
	"bytes"
	"errors"
	"testing"

	"github.com/joshdk/go-junit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a scrub and its audit both found is one result of SARIF, and fails both cases of JUnit.
func TestAScrubAndItsAuditAreCases(t *testing.T) {
	found := []Finding{{Target: "/y", Reason: "unknown"}}
	var r Report
	r.Command = "scrub"
	r.Applied([]Outcome{{Item: "a", Findings: found, Milliseconds: 7}, {Item: "b", Status: Skipped}}, nil)
	r.Concluded([]Planned{{Item: "a", Findings: found}, {Item: "c", Error: "c: no"}}, []Check{
		{Item: "a", Outcome: Found, Notes: []Finding{{Target: "/n", Reason: "noted"}}},
		{Item: "c", Outcome: Unchecked, Reason: "c: no"}, {Item: "d", Outcome: LeftOut, Reason: "left out"},
	}, true)
	cases := r.Cases(func(item string) About { return About{Short: "about " + item, Page: "rules.md#" + item} })
	var log, suite bytes.Buffer
	require.NoError(t, cases.SARIF(&log))
	assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte(`"text": "finding /y: unknown"`)))
	for _, text := range []string{
		`"text": "could not check: c: no"`, `"outcome": "skipped"`, `docs/rules.md#a`, `"uri": "file:///n"`,
	} {
		assert.Contains(t, log.String(), text)
	}
	require.NoError(t, cases.JUnit(&suite))
	suites, err := junit.Ingest(suite.Bytes())
	require.NoError(t, err)
	assert.Equal(t, junit.Totals{Tests: 5, Skipped: 2, Failed: 2, Error: 1, Duration: 7e6}, suites[0].Totals)
	assert.Equal(t, Unknown, ResultOf([]Case{{Error: "x"}, {Level: Warns}}))
	assert.Equal(t, Findings, ResultOf([]Case{{Error: "x"}, {Level: Fails}}))
}

// A run that did not start has one case with its error.
func TestARunThatDidNotStartIsACase(t *testing.T) {
	var r Report
	r.Command = "audit"
	r.Applied(nil, errors.New("no disk"))
	var log, suite bytes.Buffer
	require.NoError(t, r.Cases(nil).SARIF(&log))
	assert.Contains(t, log.String(), `"text": "no disk"`)
	require.NoError(t, r.Cases(nil).JUnit(&suite))
	assert.Contains(t, suite.String(), `message="failed: no disk"`)
}
