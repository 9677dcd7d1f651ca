package report

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
)

func TestTable(t *testing.T) {
	for name, test := range map[string]struct {
		table Table
		want  string
	}{
		"figures to the right": {
			Table{Title: "sizes", Head: []string{"what", "bytes"}, Rows: [][]string{{"a long name", "7"}, {"b", "1234567"}}},
			"sizes\n" +
				"  what           bytes\n" +
				"  a long name        7\n" +
				"  b            1234567\n",
		},
		"letters count, not bytes": {
			Table{Head: []string{"", "n"}, Rows: [][]string{{"größer", "0.1–0.2"}, {"a", ""}}},
			"                n\n" +
				"  größer  0.1–0.2\n" +
				"  a\n",
		},
		"no rows": {Table{Head: []string{"a", "b"}}, "  a  b\n"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, test.want, test.table.String()) })
	}
}

func TestContestTable(t *testing.T) {
	outcome := contest.Outcome{Name: "race", Contestants: []contest.Timing{
		{Name: "hare", Seconds: []float64{1, 3, 2}, Median: 2, Counts: contest.Counts{"sessions": 2, "MB": 1.5}},
		{Name: "tortoise", Seconds: []float64{10, 10, 8}, Median: 10, Counts: contest.Counts{"sessions": 100}},
	}}
	assert.Equal(t, ""+
		"race\n"+
		"            median s  fastest  slowest  rounds  first's ratio to it     by round\n"+
		"  hare         2.000    1.000    3.000       3\n"+
		"  tortoise    10.000    8.000   10.000       3                0.200  0.100–0.300\n",
		contestTable(outcome).String())
	assert.Equal(t, ""+
		"  counted (medians)  hare  tortoise\n"+
		"  MB                  1.5\n"+
		"  sessions              2       100\n",
		countTable(outcome).String())
}

func TestFigure(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 3: "3", 0.08: "0.08", 0.07996: "0.07996", 7913634: "7913634", 1.23456: "1.235", 12345.6: "12346"} {
		assert.Equal(t, want, figure(value))
	}
}
