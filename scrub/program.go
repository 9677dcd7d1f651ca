package scrub

import "strings"

// program is a program and the paths of its state on one machine.
type program struct {
	name  string
	paths []string
}

// of returns the rule with the paths of these programs, and with the programs
// as owners.
func (r Rule) of(programs ...program) Rule {
	var names []string
	for _, p := range programs {
		names = append(names, p.name)
		r.Paths = append(r.Paths, p.paths...)
	}
	r.Owner = strings.Join(names, ", ")
	return r
}
