//go:build e2e && linux

package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// A report that does not fit a line leaves out entries and contains their number.
func TestEventsFitALine(t *testing.T) {
	actions := slices.Repeat([]plan.Action{{Verb: plan.Remove, Target: strings.Repeat("x", 4000)}}, 20_000)
	r := plan.Report{Error: strings.Repeat("e", 1<<20),
		Outcomes: []plan.Outcome{{Item: "a", Actions: actions}, {Item: "b"}}}
	line, err := encode(Event{Kind: Finished, Report: &r})
	require.NoError(t, err)
	assert.Less(t, len(line), LineMost)
	e := testkit.JSON[Event](t, line)
	assert.Equal(t, 20_000-len(e.Report.Outcomes[0].Actions), e.Report.Omitted)
	assert.Positive(t, e.Report.Omitted)
	assert.Len(t, e.Report.Outcomes, 2)
	assert.Len(t, r.Outcomes[0].Actions, 20_000, "the report itself stays complete")
	line, err = encode(Event{Kind: End, Outcome: &r.Outcomes[0]})
	require.NoError(t, err)
	assert.Less(t, len(line), LineMost)
}
