package scrub

import (
	"errors"
	"fmt"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Extend adds rules that a program brings itself to the rules of a distribution. The
// names must be new, and the rules complete: an ID, a phase, Why, and either Find or
// Paths with the verb remove or empty. Like the rules of a rule file, they cannot
// remove files that the machine needs.
func Extend(more, own []Rule) ([]Rule, error) {
	all := slices.Concat(Table(), more)
	var errs []error
	for _, r := range own {
		if err := errors.Join(r.check(), r.checkID(all)); err != nil {
			errs = append(errs, prefixed(fmt.Sprintf("own rule %q: ", r.ID), err))
		}
		r.own = true
		if !slices.Contains(r.Groups, "own") {
			r.Groups = append([]string{"own"}, r.Groups...)
		}
		all, more = append(all, r), append(more[:len(more):len(more)], r)
	}
	return more, errors.Join(errs...)
}

// check returns all errors in a rule by itself.
func (r Rule) check() error {
	if len(r.Paths) > 0 && r.Find == nil && r.Phase != Inspect {
		o := OwnRule{ID: r.ID, Phase: r.Phase, Groups: r.Groups, Action: r.Verb, Paths: r.Paths, Keep: r.Keep, Why: r.Why}
		return o.check()
	}
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, name := range r.names() {
		wrong(!ownID().MatchString(name), "name: %q must consist of small letters, digits and hyphens", name)
	}
	wrong(!slices.Contains(append(slices.Clone(Phases), Inspect), r.Phase), "phase: %q is not known", r.Phase)
	wrong(r.Find == nil, "find: missing; without Find, set Paths and a phase that removes")
	wrong(r.Find != nil && len(r.Paths) > 0 && (r.Verb == plan.Remove || r.Verb == plan.Empty), "paths: they have no effect with Find; leave them out")
	wrong(r.Why == "", "why: missing; say what goes wrong if an image contains this")
	return errors.Join(errs...)
}

// checkID refuses an ID that selects another rule.
func (r Rule) checkID(rules []Rule) error {
	if slices.ContainsFunc(rules, func(other Rule) bool { return slices.Contains(other.names(), r.ID) }) {
		return fmt.Errorf("id: %q is another rule or group; choose another", r.ID)
	}
	return nil
}
