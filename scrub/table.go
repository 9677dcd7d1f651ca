package scrub

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// The options that errors name.
const (
	fieldRules     = surface.Name("rules")
	fieldSkipRules = surface.Name("skip_rules")
)

// Table lists the rules that apply to any distribution, in the order they run.
// A distribution adds its own rules; see Items.
func Table() []Rule {
	return slices.Concat(
		quiesceRules(),
		containerRules(),
		kubeletRules(),
		instanceStoreRules(),
		metadataRules(),
		templateRules(),
		credentialProviderRules(),
		containerdConfigRules(),
		nodeConfigRules(),
		bootstrapRules(),
		networkRules(),
		machineIDRules(),
		hostKeyRules(),
		hostsRules(),
		identityRules(),
		iscsiRules(),
		swapRules(),
		membershipRules(),
		cacheRules(),
		logRules(),
		accessRules(),
		secretRules(),
		changedRules(),
		runRules(),
		nodeRules(),
		joinRules(),
		originRules(),
		moduleRules(),
		sysctlRules(),
		firewallRules(),
		imageRules(),
	)
}

// Validate checks a spec without a machine. It accepts the rules of the table
// and those of distributions. All errors are joined.
func (s Spec) Validate(more []Rule) error {
	_, err := s.choose(append(Table(), more...))
	return errors.Join(err, s.Audit.check())
}

// Items returns the selected rules of the table and of a distribution, in phase
// order, for plan.Make and plan.Apply.
func (s Spec) Items(more []Rule) ([]plan.Item, error) {
	return s.withWipe(s.items(more, Phases))
}

// PlanItems returns the items of a dry run: those of Items and, unless Audit is
// AuditOff, the rules of the inspect phase, which ignore what other rules
// remove.
func (s Spec) PlanItems(more []Rule) ([]plan.Item, error) {
	if s.Audit == AuditOff {
		return s.Items(more)
	}
	return s.withWipe(s.items(more, append(Phases[:len(Phases):len(Phases)], Inspect)))
}

func (s Spec) withWipe(items []plan.Item, err error) ([]plan.Item, error) {
	if err == nil && s.WipeFreeSpace {
		items = append(items, &wipe{})
	}
	return items, err
}

// AuditItems returns the rules that an audit runs. They include the rules of
// the inspect phase, but not those of the quiesce phase, which stop programs
// and leave nothing to find.
func (s Spec) AuditItems(more []Rule) ([]plan.Item, error) {
	return s.items(more, append(Phases[1:len(Phases):len(Phases)], Inspect))
}

// Checks are the outcomes of all rules in an audit, in phase order: the outcomes
// of the rules that looked, the rules that the spec leaves out, and the rules of
// the quiesce phase, which have nothing to look for.
func (s Spec) Checks(more []Rule, asked []plan.Check) []plan.Check {
	rules := append(Table(), more...)
	for _, own := range s.Own {
		rules = append(rules, own.Rule())
	}
	var all []plan.Check
	for _, phase := range append(Phases[:len(Phases):len(Phases)], Inspect) {
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

func (s Spec) items(more []Rule, phases []Phase) ([]plan.Item, error) {
	chosen, err := s.choose(append(Table(), more...))
	if err = errors.Join(err, s.Audit.check()); err != nil {
		return nil, err
	}
	var items []plan.Item
	taken, owners, originals := taken{}, &owners{}, &originals{}
	for _, phase := range phases {
		for _, r := range chosen {
			if r.Phase == phase {
				r.notes = r.notes && !slices.Contains(s.Only, r.ID)
				items = append(items, item{Rule: r, hash: s.Hash, taken: taken, owners: owners, originals: originals})
			}
		}
	}
	return items, nil
}

func (s Spec) choose(rules []Rule) ([]Rule, error) {
	for _, o := range s.Own {
		if err := o.check(); err != nil {
			return nil, prefixed(fmt.Sprintf("own rule %q: ", o.ID), err)
		}
		rules = append(rules, o.Rule())
	}
	known := map[string]bool{}
	for _, r := range rules {
		for _, n := range r.names() {
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

// Chooses reports whether the spec selects a rule.
func (s Spec) Chooses(r Rule) bool {
	return (len(s.Only) == 0 || r.named(s.Only)) && !r.named(s.Skip)
}

// names returns all names that select a rule.
func (r Rule) names() []string { return append([]string{r.ID}, r.Groups...) }

func (r Rule) named(names []string) bool {
	return slices.ContainsFunc(r.names(), func(n string) bool { return slices.Contains(names, n) })
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
			all := ""
			if unknown == nil { // list the known names once
				all = "; known: " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
			}
			unknown = append(unknown, surface.Errorf("%s: no rule or group is named %q%s", chosen.field, n, all))
		}
	}
	return errors.Join(unknown...)
}
