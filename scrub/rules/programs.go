package rules

import (
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// leftover is state that only its program or a person can remove.
type leftover struct {
	program string
	// paths are patterns; a match is a finding.
	paths []string
	// but are base names of matches that are no finding.
	but []string
	// says reports whether a file has the leftover; nil reports every match.
	says func(text []byte) bool
	// advice says what to do.
	advice string
}

// removesWhere removes the row's files whose content matches.
func removesWhere(why, pattern string) func(*rule.Draft) {
	so := saying(pattern)
	return func(d *rule.Draft) { d.RemoveWhere(why, so, d.Matching(d.Paths...)...) }
}

func saying(pattern string) func([]byte) bool {
	re := rule.Expression(pattern)
	return func(text []byte) bool { return re().Match(text) }
}

// starts matches the links by which systemd starts a unit at boot: those in folders that end in
// .wants, .requires or .upholds.
const starts = "/etc/systemd/system/*.*s/"

// reports returns the rule with the paths of these leftovers, and with their
// programs as owners. It reports every match that no other rule removes.
func reports(r rule.Rule, all []leftover) rule.Rule {
	var owners []string
	for _, l := range all {
		r.Paths = append(r.Paths, l.paths...)
		if !slices.Contains(owners, l.program) {
			owners = append(owners, l.program)
		}
	}
	r.Verb, r.Owner = rule.Report, strings.Join(owners, ", ")
	r.Look = func(d *rule.Draft) {
		for _, l := range all {
			for _, pattern := range l.paths {
				for _, name := range d.Matching(pattern) {
					if !d.Taken.Has(name) && l.in(d, name) {
						d.Find(name, "state of "+l.program+" on the builder machine: "+l.advice)
					}
				}
			}
		}
	}
	return r
}

// in reports whether a match is the leftover.
func (l leftover) in(d *rule.Draft, name string) bool {
	if l.says == nil {
		return !slices.Contains(l.but, path.Base(name))
	}
	text := d.Small(name)
	return len(text) > 0 && l.says(text)
}

// program is a program and the paths of its state on one machine.
type program struct {
	name  string
	paths []string
}

// of returns the rule with the paths of these programs, and with the programs
// as owners.
func of(r rule.Rule, programs ...program) rule.Rule {
	var names []string
	for _, p := range programs {
		names = append(names, p.name)
		r.Paths = append(r.Paths, p.paths...)
	}
	r.Owner = strings.Join(names, ", ")
	return r
}
