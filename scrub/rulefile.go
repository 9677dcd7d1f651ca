package scrub

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// ownPhases are the phases for rules of an operator. The other phases stop
// programs, unmount or restore, which a path cannot describe.
var ownPhases = []Phase{State, Identity, Caches, Access}

// Rules reads the rule file. Without one, there are no rules and no error.
func (l Local) Rules() ([]Rule, error) {
	if l.RulesFile == "" {
		return nil, nil
	}
	var rules []Rule
	text, err := surface.ReadFile(l.RulesFile)
	if err == nil {
		rules, err = ParseRules(l.RulesFile, text)
	}
	if err != nil {
		return nil, surface.Errorf("{rules_file}: %w", err)
	}
	return rules, nil
}

// ParseRules reads a rule file: YAML with one list, "rules". Each error names
// file and line; an unknown field is an error.
func ParseRules(name string, text []byte) ([]Rule, error) {
	var f struct {
		Rules []Rule `json:"rules"`
	}
	lines, err := strictjson.ReadYAML(name, text, &f)
	if err != nil {
		return nil, err
	}
	if len(f.Rules) == 0 {
		return nil, fmt.Errorf("%s: the file has no rules; list them under \"rules\"", name)
	}
	var errs []error
	for i, r := range f.Rules {
		if err := errors.Join(check(r), checkNames(r, Table(), f.Rules[:i], f.Rules)); err != nil {
			errs = append(errs, placed(name, i, lines, err))
		}
	}
	return f.Rules, errors.Join(errs...)
}

// placed adds the position to each line of a rule's joined error: that of the
// field which starts the line, or that of the rule if the field is missing.
func placed(name string, index int, lines map[string]int, err error) error {
	all := strings.Split(err.Error(), "\n")
	for i, text := range all {
		field, _, _ := strings.Cut(text, ":")
		rule := fmt.Sprintf("rules[%d]", index)
		at := cmp.Or(lines[rule+"."+field], lines[rule])
		all[i] = fmt.Sprintf("%s:%d: rule %d: %s", name, at, index+1, text)
	}
	return errors.New(strings.Join(all, "\n"))
}

func prefixed(prefix string, err error) error {
	return errors.New(prefix + strings.ReplaceAll(err.Error(), "\n", "\n"+prefix))
}

var ownID = rule.Expression(`^[a-z0-9][a-z0-9-]*$`)

// check checks a rule of an operator. One with a function may have any phase and verb.
func check(r Rule) error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(!ownID().MatchString(r.ID), "id: %q must consist of small letters, digits and hyphens", r.ID)
	for _, g := range r.Groups {
		wrong(!ownID().MatchString(g), "groups: %q must consist of small letters, digits and hyphens", g)
	}
	phases, checkPath := ownPhases, rule.CheckPath
	if r.Look != nil {
		phases = rule.Phases
		checkPath = func(p string) error { return rule.CheckPattern(strings.ReplaceAll(p, "/**", "/*")) }
	}
	names := show.Each(phases, func(p Phase) string { return string(p) })
	wrong(!slices.Contains(phases, r.Phase), "phase: %q is none of %s", r.Phase, strings.Join(names, ", "))
	removes := r.Verb == plan.Remove || r.Verb == plan.Empty
	wrong(r.Look == nil && !removes, "action: %q is neither %q nor %q", r.Verb, plan.Remove, plan.Empty)
	wrong(r.Why == "", "why: missing; say what goes wrong if an image contains these files")
	wrong(r.Look == nil && len(r.Paths) == 0, "paths: there are none")
	for _, p := range r.Paths {
		err := checkPath(p)
		wrong(err != nil, "paths: %q %w", p, err)
	}
	for _, p := range r.Keep {
		err := rule.CheckPattern(p)
		wrong(err != nil, "keep: %q %w", p, err)
	}
	return errors.Join(errs...)
}

// checkNames refuses names that select other rules: those of eksnode, of the
// rules before in the file, and of all rules in the file.
func checkNames(r Rule, rules []Rule, before, all []Rule) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if slices.ContainsFunc(rules, func(other Rule) bool { return slices.Contains(other.Names(), r.ID) }) {
		wrong("id: %q is a rule or group of eksnode; choose another", r.ID)
	} else if slices.ContainsFunc(before, func(other Rule) bool { return other.ID == r.ID }) {
		wrong("id: %q is used twice", r.ID)
	}
	for i, g := range r.Groups {
		switch {
		case slices.Contains(r.Groups[:i], g):
			wrong("groups: %q is listed twice", g)
		case slices.ContainsFunc(rules, func(other Rule) bool { return other.ID == g }):
			wrong("groups: %q is a rule of eksnode; choose another name", g)
		case slices.ContainsFunc(all, func(other Rule) bool { return other.ID == g }):
			wrong("groups: %q is the ID of a rule in the file; choose another name", g)
		}
	}
	return errors.Join(errs...)
}

// Extend adds rules that a program brings itself to the rules of a distribution. The
// names must be new, and the rules complete: an ID, a phase, Why, and either Look or
// Paths with the verb remove or empty. Like the rules of a rule file, they cannot
// remove files that the machine needs.
func Extend(more, own []Rule) ([]Rule, error) {
	if len(own) == 0 {
		return more, nil
	}
	all := slices.Concat(Table(), more)
	var errs []error
	for i, r := range own {
		if err := errors.Join(check(r), checkNames(r, all, own[:i], own)); err != nil {
			errs = append(errs, prefixed(fmt.Sprintf("own rule %q: ", r.ID), err))
		}
		more = append(more[:len(more):len(more)], r.AsOwn())
	}
	return more, errors.Join(errs...)
}
