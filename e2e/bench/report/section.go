package report

import (
	"fmt"
	"io"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
)

// Section is what one benchmark found.
type Section struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Contests are the timings, Facts the other figures, by a name that says
	// the unit.
	Contests []contest.Outcome  `json:"contests,omitempty"`
	Facts    map[string]float64 `json:"facts,omitempty"`
	Goals    []Goal             `json:"goals,omitempty"`
	Notes    []string           `json:"notes,omitempty"`
	// Tables are for a person, beside those of the contests.
	Tables []Table `json:"-"`
}

// Print shows the section.
func (s Section) Print(out io.Writer) {
	fmt.Fprintf(out, "\n%s: %s\n", s.Name, s.About)
	for _, c := range s.Contests {
		fmt.Fprintf(out, "\n%s", contestTable(c))
		if counted := countTable(c); len(counted.Rows) > 0 {
			fmt.Fprint(out, counted)
		}
	}
	for _, t := range s.Tables {
		fmt.Fprintf(out, "\n%s", t)
	}
	if len(s.Goals) > 0 {
		fmt.Fprintf(out, "\n%s", goalTable(s.Goals))
	}
	for i, note := range s.Notes {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "- %s\n", note)
	}
}
