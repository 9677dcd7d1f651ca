package scrub

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rules"
)

// The options that errors name.
const (
	fieldRules     = surface.Name("rules")
	fieldSkipRules = surface.Name("skip_rules")
)

// Table lists the rules that apply to any distribution, in the order they run.
// A distribution adds its own rules; see Items.
func Table() []Rule { return rules.All() }

// Validate checks the spec of a scrub without a machine. It accepts the rules of
// the table and those of distributions. All errors are joined.
func (s Spec) Validate(more []Rule) error {
	_, err := s.chosen(more, Spec.scrubs)
	return err
}

// ValidateAudit checks the spec of an audit in the same way.
func (s Spec) ValidateAudit(more []Rule) error {
	_, err := s.chosen(more, Spec.audits)
	return err
}

// ValidateSelection checks a spec that only lists rules.
func (s Spec) ValidateSelection(more []Rule) error {
	_, err := s.chosen(more, func(Spec, []Rule) error { return nil })
	return err
}

// chosen are the selected rules, if they have a use.
func (s Spec) chosen(more []Rule, use func(Spec, []Rule) error) ([]Rule, error) {
	chosen, err := s.choose(append(Table(), more...))
	if err == nil {
		err = use(s, chosen)
	}
	return chosen, errors.Join(err, s.check())
}

// scrubs refuses a selection with which a scrub changes nothing.
func (s Spec) scrubs(chosen []Rule) error {
	if s.WipeFreeSpace || slices.ContainsFunc(chosen, func(r Rule) bool { return r.Phase != Inspect }) {
		return nil
	}
	return surface.Errorf("%s: the selected rules only report, so a scrub would change nothing: run an audit with these "+
		"rules, or also select rules that remove something", fieldRules)
}

// audits refuses a selection with which an audit looks for nothing.
func (s Spec) audits(chosen []Rule) error {
	if slices.ContainsFunc(chosen, func(r Rule) bool { return r.Phase != rule.Quiesce }) {
		return nil
	}
	return surface.Errorf("%s: the selected rules only stop programs, so an audit would check nothing: also select rules "+
		"that look for leftover state", fieldRules)
}

// Items returns the selected rules of the table and of a distribution, in phase
// order, for plan.Make and plan.Apply.
func (s Spec) Items(more []Rule) ([]plan.Item, error) {
	return s.items(more, Spec.scrubs, rule.Phases)
}

// PlanItems returns the items of a dry run: those of Items and, unless Audit is
// AuditOff, the rules of the inspect phase, which ignore what other rules
// remove.
func (s Spec) PlanItems(more []Rule) ([]plan.Item, error) {
	if s.Audit == AuditOff {
		return s.Items(more)
	}
	return s.items(more, Spec.scrubs, append(rule.Phases[:len(rule.Phases):len(rule.Phases)], Inspect))
}

// AuditItems returns the rules that an audit runs. They include the rules of
// the inspect phase, but not those of the quiesce phase, which stop programs
// and leave nothing to find. ids are the MachineIDs from before a scrub.
func (s Spec) AuditItems(more []Rule, ids ...string) ([]plan.Item, error) {
	s.WipeFreeSpace = false
	return s.items(more, Spec.audits, append(rule.Phases[1:len(rule.Phases):len(rule.Phases)], Inspect), ids...)
}

// Checks are the outcomes of all rules in an audit, in phase order: the outcomes
// of the rules that looked, the rules that the spec leaves out, and the rules of
// the quiesce phase, which have nothing to look for.
func (s Spec) Checks(more []Rule, asked []plan.Check) []plan.Check {
	rules := append(Table(), more...)
	for _, own := range s.Own {
		rules = append(rules, own.AsOwn())
	}
	var all []plan.Check
	for _, phase := range append(rule.Phases[:len(rule.Phases):len(rule.Phases)], Inspect) {
		for _, r := range rules {
			if r.Phase != phase {
				continue
			}
			c := plan.Check{Item: r.ID, Phase: string(phase), Outcome: plan.LeftOut, Reason: "the options leave the rule out"}
			if i := slices.IndexFunc(asked, func(a plan.Check) bool { return a.Item == r.ID }); i >= 0 {
				c = asked[i]
			} else if s.Chooses(r) {
				c.Outcome, c.Reason = plan.NotApplicable, "the rule is for a scrub: it stops running programs and leaves nothing to find"
			}
			all = append(all, c)
		}
	}
	return all
}

func (s Spec) items(more []Rule, use func(Spec, []Rule) error, phases []Phase, ids ...string) ([]plan.Item, error) {
	chosen, err := s.chosen(more, use)
	if err != nil {
		return nil, err
	}
	var items []plan.Item
	shared := rule.Run{Taken: rule.Taken{}, Owners: &rule.Owners{}, Originals: &rule.Originals{}, Ids: ids}
	for _, phase := range phases {
		for _, r := range chosen {
			if r.Phase != phase {
				continue
			}
			r.Notes = r.Notes && !slices.Contains(s.Only, r.ID)
			named := slices.Contains(s.Only, r.ID) || r.Breaks != nil && r.Named(s.Only)
			switch {
			case named || s.Node == NodeYes:
			case r.Breaks != nil: // a hardened machine that is no node breaks none
				r.Applies = rules.ANode
			case r.OfNodes && s.Node == NodeAuto:
				r.Applies = rules.SeemsNode
			}
			items = append(items, item{Rule: r, hash: s.Hash, Run: shared})
		}
	}
	if s.WipeFreeSpace {
		items = append(items, &wipe{})
	}
	return items, nil
}

func (s Spec) choose(rules []Rule) ([]Rule, error) {
	own, err := s.ownRules(rules)
	if err != nil {
		return nil, err
	}
	rules = append(rules, own...)
	known := map[string]bool{}
	for _, r := range rules {
		for _, n := range r.Names() {
			known[n] = true
		}
	}
	if err := s.checkNames(known); err != nil {
		return nil, err
	}
	chosen := slices.DeleteFunc(rules, func(r Rule) bool { return !s.Chooses(r) })
	if len(chosen) == 0 {
		return nil, surface.Errorf("selecting rules: no rule is left; change %s or %s", fieldRules, fieldSkipRules)
	}
	return chosen, nil
}

// ownRules checks the operator's rules beside all others.
func (s Spec) ownRules(rules []Rule) ([]Rule, error) {
	var own []Rule
	for i, o := range s.Own {
		err := errors.Join(checkRow(o), checkNames(o, rules, s.Own[:i], s.Own))
		if err != nil {
			return nil, prefixed(fmt.Sprintf("own rule %q: ", o.ID), err)
		}
		own = append(own, o.AsOwn())
	}
	return own, nil
}

// Chooses reports whether the spec selects a rule.
func (s Spec) Chooses(r Rule) bool {
	return (len(s.Only) == 0 || r.Named(s.Only)) && !r.Named(s.Skip) && !(r.OfNodes && s.Node == NodeNo)
}

// checkNames refuses unknown rules and groups.
func (s Spec) checkNames(known map[string]bool) error {
	var unknown []error
	for _, chosen := range []struct {
		field surface.Name
		names []string
	}{{fieldRules, s.Only}, {fieldSkipRules, s.Skip}} {
		for _, n := range chosen.names {
			if known[n] {
				continue
			}
			names := slices.Sorted(maps.Keys(known))
			hint := show.Meant(n, names)
			if hint == "" && unknown == nil { // list the known names once
				hint = "; known: " + strings.Join(names, ", ")
			}
			unknown = append(unknown, surface.Errorf("%s: no rule, phase or group is named %q%s", chosen.field, n, hint))
		}
	}
	return errors.Join(unknown...)
}
