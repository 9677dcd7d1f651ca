package report

import "fmt"

// Goal is a figure that must not exceed a limit. A missed one is said, and is
// no error: the time of day and the neighbours decide it too.
type Goal struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Met   bool    `json:"met"`
}

// NewGoal compares a figure with its limit.
func NewGoal(what string, value, limit float64) Goal {
	return Goal{What: what, Value: value, Limit: limit, Met: value <= limit}
}

// Verdict is "met" or "MISSED".
func (g Goal) Verdict() string {
	if g.Met {
		return "met"
	}
	return "MISSED"
}

func goalTable(goals []Goal) Table {
	t := Table{Head: []string{"goal", "at most", "measured", ""}}
	for _, g := range goals {
		t.Rows = append(t.Rows, []string{g.What, figure(g.Limit), figure(g.Value), g.Verdict()})
	}
	return t
}

// Summary is all goals of all sections in one table, and how many were missed.
func Summary(sections []Section) (table Table, missed int) {
	table = goalTable(nil)
	for _, s := range sections {
		for _, g := range s.Goals {
			table.Rows = append(table.Rows, []string{s.Name + ": " + g.What, figure(g.Limit), figure(g.Value), g.Verdict()})
			if !g.Met {
				missed++
			}
		}
	}
	table.Title = fmt.Sprintf("%d of %d goals met", len(table.Rows)-missed, len(table.Rows))
	return table, missed
}
