package report

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSummary(t *testing.T) {
	table, missed := Summary([]Section{
		{Name: "agent", Goals: []Goal{NewGoal("of the time", 0.0799, 0.08), NewGoal("sessions", 3, 3)}},
		{Name: "size"},
		{Name: "provision", Goals: []Goal{NewGoal("of the time", 0.51, 0.5)}},
	})
	assert.Equal(t, 1, missed)
	assert.Equal(t, ""+
		"2 of 3 goals met\n"+
		"  goal                    at most  measured\n"+
		"  agent: of the time         0.08    0.0799     met\n"+
		"  agent: sessions               3         3     met\n"+
		"  provision: of the time      0.5      0.51  MISSED\n",
		table.String())
}
