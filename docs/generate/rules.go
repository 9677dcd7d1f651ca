package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// row is a rule as its phase's table shows it.
type row struct {
	scrub.Rule
	// Distro names the distributions whose rule it is; empty for all.
	Distro string
}

// rows are the table's rules and then those that distributions add.
func rows() []row {
	var list []row
	for _, r := range scrub.Table() {
		list = append(list, row{Rule: r})
	}
	for _, d := range distros.All() {
		for _, r := range d.Scrub {
			same := func(have row) bool { return have.ID == r.ID }
			if i := slices.IndexFunc(list, same); i >= 0 {
				list[i].Distro += ", " + d.Name
				continue
			}
			list = append(list, row{r, d.Name})
		}
	}
	return list
}

// phase is a stretch of the scrub, or what only an audit asks.
type phase struct {
	scrub.Phase
	AuditOnly bool
}

// phases are the scrub's own, and then those of other rules.
func phases() []phase {
	var list []phase
	for _, p := range scrub.Phases {
		list = append(list, phase{Phase: p})
	}
	for _, r := range rows() {
		if !slices.ContainsFunc(list, func(p phase) bool { return p.Phase == r.Phase }) {
			list = append(list, phase{r.Phase, true})
		}
	}
	return list
}

// rulesOf are the rows of one phase.
func rulesOf(p phase) []row {
	return slices.DeleteFunc(rows(), func(r row) bool { return r.Phase != p.Phase })
}

// group is a name that several rules can be chosen by.
type group struct {
	Name  string
	Rules []string
}

func groups() []group {
	members := map[string][]string{}
	for _, r := range rows() {
		for _, name := range r.Groups {
			if !slices.Contains(members[name], r.ID) {
				members[name] = append(members[name], r.ID)
			}
		}
	}
	var list []group
	for _, name := range slices.Sorted(maps.Keys(members)) {
		list = append(list, group{name, members[name]})
	}
	return list
}

// meaning says what a verb does, for readers who do not read the code.
var meaning = map[plan.Verb]string{
	plan.Remove:  "the file, link or folder goes",
	plan.Empty:   "the file or folder stays, with mode, owner and label; what is in it goes",
	plan.Write:   "the file gets exactly the content it should have",
	plan.Restore: "the template that was filled in comes back",
	plan.Disable: "the unit does not start at boot any more",
	plan.Stop:    "the running unit is stopped",
	plan.Unmount: "the mount is detached",
	plan.Wipe:    "what was removed is discarded or overwritten on the disk",
	plan.Run:     "a command runs",
	scrub.Report: "nothing changes; what the rule finds, only a person can resolve",
}

// verb is a verb that rules use.
type verb struct{ Verb, Meaning string }

func verbs() ([]verb, error) {
	var list []verb
	for _, r := range rows() {
		if slices.ContainsFunc(list, func(v verb) bool { return v.Verb == string(r.Verb) }) {
			continue
		}
		m, ok := meaning[r.Verb]
		if !ok {
			return nil, fmt.Errorf("the verb %q of the rule %s has no meaning in docs/generate", r.Verb, r.ID)
		}
		list = append(list, verb{string(r.Verb), m})
	}
	slices.SortFunc(list, func(a, b verb) int { return cmp.Compare(a.Verb, b.Verb) })
	return list, nil
}

// paths are a rule's paths, and those that it leaves.
func paths(r row) string {
	list := code(r.Paths)
	if len(r.Keep) > 0 {
		list += "; keeps " + code(r.Keep)
	}
	return list
}

// code sets each word as code.
func code(words []string) string {
	set := make([]string, len(words))
	for i, w := range words {
		set[i] = "`" + strings.ReplaceAll(w, "|", `\|`) + "`"
	}
	return strings.Join(set, ", ")
}

// cell is text that may stand in a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;", "\n", " ").Replace(text)
}
