package scrub

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Phase is a stretch of the scrub. The phases run in the order of Phases, and
// one starts only when the one before it went through, so that a scrub that
// fails leaves a machine its owner can still log in to.
type Phase string

// The phases.
const (
	Quiesce  Phase = "quiesce"         // stop what writes
	Unmount  Phase = "unmount"         // detach what is mounted below the kubelet
	State    Phase = "state"           // drop what the old cluster left
	Restored Phase = "restore"         // put templates and enablement back
	Identity Phase = "identity"        // drop what makes this machine itself
	Caches   Phase = "caches and logs" // drop what the build left
	Access   Phase = "access"          // drop the ways in, last of all
)

// Inspect is the phase of what only an audit asks: what no rule may remove.
const Inspect Phase = "inspect"

// Phases lists those of a scrub in the order they run.
var Phases = []Phase{Quiesce, Unmount, State, Restored, Identity, Caches, Access}

// Report is the verb of rules that have findings only. No action has it.
const Report plan.Verb = "report"

// Rule is one row of the table: something a node image must not carry.
type Rule struct {
	// ID names the rule in flags, reports and documentation.
	ID    string
	Phase Phase
	// Groups are the other names it can be chosen by, such as "kubelet".
	Groups []string
	// Verb is what happens to each path: plan.Remove takes it away, plan.Empty
	// keeps the file or directory and drops what is in it. Rules with a Find
	// may use any verb; the one here is for documentation.
	Verb plan.Verb
	// Paths are absolute, may hold the wildcards of path.Match, and may start
	// with "~/" for the home folder of every account in passwd(5).
	Paths []string
	// Keep are paths in the form of Paths. What they name stays, with all that
	// is below, at any depth of what Paths match; so do the folders on the way.
	Keep []string
	// Owner is the program that writes there.
	Owner string
	// Why says what goes wrong when the image carries it.
	Why string
	// Regenerated says what makes it again on the new machine; "nothing" when
	// nothing has to.
	Regenerated string
	// Source is where the fact comes from.
	Source string
	// Applies says whether the rule is for this machine at all; nil is yes. A
	// rule that does not apply may give findings instead.
	Applies func(context.Context, *host.Host) (bool, plan.Answer, error)
	// Find plans the rule instead of Verb and Paths.
	Find func(context.Context, *host.Host) (plan.Answer, error)
	// Search plans a rule of an audit that looks at whatever the other rules do
	// not take.
	Search func(context.Context, *host.Host, taken) ([]plan.Finding, error)

	// own says that the rule is an operator's; owned that it may take files that
	// a package owns.
	own, owned bool
}

// taken is what rules were about to do to files and trees when they were last
// asked, by the rule's ID.
type taken map[string]map[string]plan.Verb

func (t taken) note(rule string, actions []plan.Action) {
	verbs := map[string]plan.Verb{}
	for _, a := range actions {
		verbs[a.Target] = a.Verb
	}
	if t != nil {
		t[rule] = verbs
	}
}

// has says whether a file, or a folder above it, goes.
func (t taken) has(name string) bool {
	for ; name != "/" && name != "."; name = path.Dir(name) {
		if t.by(name, plan.Remove, plan.Empty) {
			return true
		}
	}
	return false
}

// by says whether a rule does one of these to a path.
func (t taken) by(name string, verbs ...plan.Verb) bool {
	for _, done := range t {
		if slices.Contains(verbs, done[name]) {
			return true
		}
	}
	return false
}

// item is a Rule as a plan.Item.
type item struct {
	Rule
	hash bool // hash what is removed
	// taken and owners are shared by the items of a run.
	taken  taken
	owners *owners
}

func (i item) ID() string { return i.Rule.ID }

func (i item) Phase() string { return string(i.Rule.Phase) }

// Plan implements plan.Item.
func (i item) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	answer, err := i.plan(ctx, h)
	answer, foreignErr := withoutForeign(ctx, h, answer)
	i.taken.note(i.ID(), answer.Actions)
	if i.hash {
		for n := range answer.Actions {
			if a := &answer.Actions[n]; a.Take != nil {
				verb, name := a.Verb, a.Target
				a.Hash = func() ([]plan.FileHash, error) { return hashFiles(ctx, h, verb, name) }
			}
		}
	}
	return answer, errors.Join(err, foreignErr)
}

func (i item) plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	if i.Applies != nil {
		ok, findings, err := i.Applies(ctx, h)
		if err != nil || !ok {
			findings.NotApplicable = "the rule is not for this machine"
			return findings, err
		}
	}
	switch {
	case i.Find != nil:
		return i.Find(ctx, h)
	case i.Search != nil:
		findings, err := i.Search(ctx, h, i.taken)
		return plan.Answer{Findings: findings}, err
	}
	answer, err := i.planPaths(h)
	if i.own {
		if refused := i.judge(ctx, h, answer.Actions); refused != nil {
			return plan.Answer{}, errors.Join(err, refused)
		}
	}
	return answer, err
}

func (i item) planPaths(h *host.Host) (plan.Answer, error) {
	names, foreign, err := i.matches(h)
	if err != nil {
		return plan.Answer{}, err
	}
	kept, err := findKeeps(h, i.Keep)
	if err != nil {
		return plan.Answer{}, err
	}
	answer := plan.Answer{Findings: foreignFindings(h, foreign)}
	var errs []error
	for _, name := range names {
		found, err := planKeeping(h, i.Verb, name, i.Why, kept)
		if err != nil {
			errs = append(errs, err)
		}
		answer.Add(found)
	}
	return answer, errors.Join(errs...)
}

// matches lists what the rule's paths name on this machine, and the foreign
// mounts that were not looked into.
func (i item) matches(h *host.Host) ([]string, []*host.ForeignMount, error) {
	patterns, err := places(h, i.Paths)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	var foreign []*host.ForeignMount
	for _, p := range patterns {
		found, mounts, err := p.names(h)
		if err != nil {
			return nil, nil, err
		}
		names, foreign = append(names, found...), append(foreign, mounts...)
	}
	slices.Sort(names)
	return slices.Compact(names), foreign, nil
}
