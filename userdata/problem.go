package userdata

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// Problem is one thing that is wrong with user data.
type Problem struct {
	// Line counts from 1 in the file that was checked; 0 stands for the file as
	// a whole.
	Line int `json:"line,omitempty"`
	// Field is the setting's path, a flag or a parameter; empty where it is none.
	Field string `json:"field,omitempty"`
	Text  string `json:"text"`
	// Warning says that it would work, and is probably meant otherwise.
	Warning bool `json:"warning,omitempty"`
}

// String is the problem as compilers print theirs, after the file's name.
func (p Problem) String() string {
	var parts []string
	if p.Line > 0 {
		parts = append(parts, fmt.Sprint(p.Line))
	}
	if p.Warning {
		parts = append(parts, "warning")
	}
	if p.Field != "" {
		parts = append(parts, p.Field)
	}
	return strings.Join(append(parts, p.Text), ": ")
}

// Report is what a check found.
type Report struct {
	// Family is the ID of the family that it was checked as.
	Family string `json:"family"`
	// Cluster is what the user data says of the cluster, as far as it does.
	Cluster  Cluster   `json:"cluster"`
	Problems []Problem `json:"problems"`
}

// Failed says whether something is wrong, warnings aside.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool { return !p.Warning })
}

// checker collects what is found in a part of a file.
type checker struct {
	report *Report
	// before is how many lines lie before the text that is looked at.
	before int
	// taints are those that the node would register with.
	taints []string
	// clusterElsewhere says that a tool puts the cluster in, and joinsElsewhere
	// that its own user data, which is merged with this, has the machine join.
	clusterElsewhere, joinsElsewhere bool
	// configs counts the NodeConfigs that were read.
	configs int
}

// maxProblems bounds how many problems are listed.
const maxProblems = 200

func (c *checker) fail(line int, field, format string, args ...any) {
	c.add(Problem{Line: c.line(line), Field: field, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) warn(line int, field, format string, args ...any) {
	c.add(Problem{Line: c.line(line), Field: field, Text: fmt.Sprintf(format, args...), Warning: true})
}

func (c *checker) add(p Problem) {
	switch n := len(c.report.Problems); {
	case n < maxProblems:
		p.Field, p.Text = nodeconfig.Printable(p.Field), nodeconfig.Printable(p.Text)
		c.report.Problems = append(c.report.Problems, p)
	case n == maxProblems:
		c.report.Problems = append(c.report.Problems, Problem{Text: "further problems are not listed"})
	}
}

func (c *checker) line(line int) int {
	if line == 0 {
		return 0
	}
	return c.before + line
}

// within looks at a text that begins after some lines of this one.
func (c *checker) within(lines int, look func()) {
	c.before += lines
	look()
	c.before -= lines
}

// sort puts problems in the file's order.
func (r *Report) sort() {
	slices.SortStableFunc(r.Problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
}
