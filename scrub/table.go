package scrub

import (
	"errors"
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

// Mode says what the selected rules are for.
type Mode int

// The modes. An audit has the rules of the inspect phase, but not those of the
// quiesce phase, which stop programs and leave nothing to find.
const (
	ToList  Mode = iota // nothing runs
	ToScrub             // all phases but inspect
	ToPlan              // a dry run: also inspect, unless Audit is AuditOff
	ToAudit             // all phases but quiesce
)

// Validate checks the spec without a machine. It accepts the rules of the table
// and those of distributions. All errors are joined.
func (s Spec) Validate(m Mode, more []Rule) error {
	_, err := s.Items(m, more)
	return err
}

// Items returns the selected rules of the table and of a distribution, in phase
// order, for plan.Make and plan.Apply. ids are the MachineIDs from before a scrub.
// A selection that leaves the mode nothing to do is an error.
func (s Spec) Items(m Mode, more []Rule, ids ...string) ([]plan.Item, error) {
	all, err := s.all(more)
	if err == nil {
		err = s.checkNames(all)
	}
	if err = errors.Join(err, s.check()); err != nil {
		return nil, err
	}
	chosen := slices.DeleteFunc(all, func(r Rule) bool { return !s.Chooses(r) })
	if len(chosen) == 0 {
		return nil, surface.Errorf("selecting rules: no rule is left; change %s or %s", fieldRules, fieldSkipRules)
	}
	idle, why := Inspect, "only report, so a scrub would change nothing: run an audit with these rules, or also "+
		"select rules that remove something"
	if m == ToAudit {
		idle, why = rule.Quiesce, "only stop programs, so an audit would check nothing: also select rules that look "+
			"for leftover state"
	}
	used := m == ToList || s.WipeFreeSpace && m != ToAudit
	var items []plan.Item
	shared := rule.Run{Taken: rule.Taken{}, Owners: &rule.Owners{}, Originals: &rule.Originals{}, IDs: ids}
	for _, r := range chosen {
		used = used || r.Phase != idle
		if r.Phase == idle && (m == ToAudit || m == ToScrub || m == ToPlan && s.Audit == AuditOff) {
			continue
		}
		r.Notes = r.Notes && !slices.Contains(s.Only, r.ID)
		named := slices.Contains(s.Only, r.ID) || r.Breaks != nil && r.Named(s.Only)
		switch {
		case named || s.Node == NodeYes:
		case r.Breaks != nil: // a hardened machine that is no node breaks none
			r.Applies = rules.IsNode
		case r.OfNodes && s.Node == NodeAuto:
			r.Applies = rules.SeemsNode
		}
		items = append(items, item{Rule: r, hash: s.Hash, Run: shared})
	}
	if !used {
		return nil, surface.Errorf("%s: the selected rules %s", fieldRules, why)
	}
	if s.WipeFreeSpace && m != ToAudit {
		items = append(items, &wipe{})
	}
	return items, nil
}

// all are the rules of the table, of a distribution and of the operator, in the order of
// their phases.
func (s Spec) all(more []Rule) ([]Rule, error) {
	all, err := Extend(more, s.Own)
	if err != nil {
		return nil, err
	}
	all = append(Table(), all...)
	slices.SortStableFunc(all, func(a, b Rule) int {
		return slices.Index(rule.Phases, a.Phase) - slices.Index(rule.Phases, b.Phase)
	})
	return all, nil
}

// Checks are the outcomes of all rules in an audit, in phase order: the outcomes
// of the rules that looked, the rules that the spec leaves out, and the rules of
// the quiesce phase, which have nothing to look for.
func (s Spec) Checks(more []Rule, asked []plan.Check) (checks []plan.Check) {
	all, _ := s.all(more) // Items has refused wrong ones
	for _, r := range all {
		c := plan.Check{Item: r.ID, Phase: string(r.Phase), Outcome: plan.LeftOut,
			Reason: "the options leave the rule out"}
		if i := slices.IndexFunc(asked, func(a plan.Check) bool { return a.Item == r.ID }); i >= 0 {
			c = asked[i]
		} else if s.Chooses(r) {
			c.Outcome, c.Reason = plan.NotApplicable, "the rule is for a scrub: it stops running programs and leaves "+
				"nothing to find"
		}
		checks = append(checks, c)
	}
	return checks
}

// Chooses reports whether the spec selects a rule.
func (s Spec) Chooses(r Rule) bool {
	return (len(s.Only) == 0 || r.Named(s.Only)) && !r.Named(s.Skip) && !(r.OfNodes && s.Node == NodeNo)
}

func (s Spec) checkNames(all []Rule) error {
	known := map[string]bool{}
	for _, r := range all {
		for _, n := range r.Names() {
			known[n] = true
		}
	}
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
			unknown = append(unknown,
				surface.Errorf("%s: no rule, phase or group is named %q%s", chosen.field, n, hint))
		}
	}
	return errors.Join(unknown...)
}
