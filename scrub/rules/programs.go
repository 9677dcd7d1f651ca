package rules

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// program is a program and its state on one machine.
type program struct {
	Name string
	// Paths are patterns.
	Paths []string
	// But are base names of matches that are not its state.
	But []string
	// Says matches what a file says that has the state. Without it, every match has it.
	Says string
	// Names are settings that are state if they have the name of a machine.
	Names []string
	// Advice says what a person must do, in a row that reports the state.
	Advice string
}

// ownersAndPaths are those of a row, from its programs.
func ownersAndPaths(programs []program) (owners string, paths []string) {
	var names []string
	for _, p := range programs {
		names, paths = append(names, p.Name), append(paths, p.Paths...)
	}
	return strings.Join(slices.Compact(names), ", "), paths
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

// leftovers reports all state of programs that no other rule removes.
func leftovers(programs []program) func(*rule.Draft) {
	return func(d *rule.Draft) {
		for _, p := range programs {
			for _, pattern := range p.Paths {
				for _, name := range d.Matching(pattern) {
					if !d.Taken.Has(name) && p.in(d, name) {
						d.Find(name, "state of "+p.Name+" on the builder machine: "+p.Advice)
					}
				}
			}
		}
	}
}

// in reports whether a match is state of the program.
func (p program) in(d *rule.Draft, name string) bool {
	if p.Says == "" && p.Names == nil {
		return !slices.Contains(p.But, path.Base(name))
	}
	text := d.Small(name)
	if p.Names != nil {
		return namesMachine(p.Names, text)
	}
	return len(text) > 0 && regexp.MustCompile(p.Says).Match(text)
}
