package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
)

func section() Section {
	return Section{
		Name: "agent", About: "one session against many",
		Contests: []contest.Outcome{{Name: "race", Contestants: []contest.Timing{
			{Name: "hare", Seconds: []float64{1}, Median: 1}, {Name: "tortoise", Seconds: []float64{2}, Median: 2},
		}}},
		Tables: []Table{{Title: "more", Head: []string{"a", "b"}}},
		Goals:  []Goal{NewGoal("of the time", 0.5, 0.4)},
		Notes:  []string{"measured thus", "and thus"},
	}
}

func TestSectionPrint(t *testing.T) {
	var out bytes.Buffer
	section().Print(&out)
	assert.Equal(t, `
agent: one session against many

race
            median s  fastest  slowest  rounds  first's ratio to it     by round
  hare         1.000    1.000    1.000       1
  tortoise     2.000    2.000    2.000       1                0.500  0.500–0.500

more
  a  b

  goal         at most  measured
  of the time      0.4       0.5  MISSED

- measured thus
- and thus
`, out.String())
}

func TestDocumentWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "made", "bench.json")
	require.NoError(t, Document{Schema: Schema, Sections: []Section{section()}}.Write(file))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var back Document
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, Schema, back.Schema)
	assert.Equal(t, section().Goals, back.Sections[0].Goals)
	assert.Equal(t, section().Contests, back.Sections[0].Contests)

	require.ErrorContains(t, Document{}.Write(filepath.Join(file, "below-a-file", "x.json")), "keeping the figures: ")
}
