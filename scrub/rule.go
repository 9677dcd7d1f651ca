package scrub

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Phase is a part of the scrub. The phases run in the order of Phases. A phase
// starts only when the phase before it succeeded, so after a failed scrub the
// owner can still log in.
type Phase string

// The phases.
const (
	Quiesce  Phase = "quiesce"         // stop programs that write
	Unmount  Phase = "unmount"         // unmount everything below the kubelet
	State    Phase = "state"           // remove state of the old cluster
	Restored Phase = "restore"         // put templates and enablement back
	Identity Phase = "identity"        // remove the identity of this machine
	Caches   Phase = "caches and logs" // remove caches and logs of the build
	Access   Phase = "access"          // remove logins, last of all
)

// Inspect is the phase of rules that only an audit runs: no rule may remove
// what they find.
const Inspect Phase = "inspect"

// Phases lists the phases of a scrub in the order they run.
var Phases = []Phase{Quiesce, Unmount, State, Restored, Identity, Caches, Access}

// Report is the verb of rules that only have findings. No action has it.
const Report plan.Verb = "report"

// Rule is one row of the table: files or state that a node image must not
// contain. A rule file has the fields with names.
type Rule struct {
	// ID names the rule in flags, reports and documentation, with lower-case letters,
	// digits and hyphens.
	ID string `yaml:"id" json:"id"`
	// Phase is when the rule runs. In a rule file, it is state, identity, "caches and
	// logs" or access.
	Phase Phase `yaml:"phase" json:"phase"`
	// Groups are other names that select the rule, such as "kubelet".
	Groups []string `yaml:"groups" json:"groups,omitempty"`
	// Verb is the action on each path: plan.Remove removes it, plan.Empty keeps
	// the file or directory and removes its contents. Rules with a Find may use
	// any verb; the one here is for documentation.
	Verb plan.Verb `yaml:"action" json:"action"`
	// Paths are absolute, may contain wildcards of path.Match, and may start
	// with "~/" for the home folder of every account in passwd(5).
	Paths []string `yaml:"paths" json:"paths"`
	// Keep are paths in the form of Paths. A kept path stays with everything
	// below it, at any depth of what Paths match, and so do the folders on the
	// way to it.
	Keep []string `yaml:"keep" json:"keep,omitempty"`
	// Owned says that the rule may remove files that a package owns. Rules of the table
	// may.
	Owned bool `yaml:"owned" json:"owned,omitempty"`
	// Owner is the program that writes the files.
	Owner string `yaml:"owner" json:"owner,omitempty"`
	// Why says what goes wrong if the image contains the files.
	Why string `yaml:"why" json:"why"`
	// Regenerated says what creates the files again on the new machine;
	// "nothing" if that is not needed.
	Regenerated string `yaml:"regenerated" json:"regenerated,omitempty"`
	// Source is where the facts come from.
	Source string `yaml:"source" json:"source,omitempty"`
	// Applies reports whether the rule applies to this machine; nil means yes.
	// A rule that does not apply may return findings instead.
	Applies func(context.Context, *host.Host) (bool, plan.Answer, error) `yaml:"-" json:"-"`
	// Breaks describes the setting that a rule of BreakersGroup finds; nil for
	// other rules.
	Breaks *Breaker `yaml:"-" json:"-"`
	// Find plans the rule instead of Verb and Paths. It changes nothing; the actions
	// of its answer do. host.Files never leaves the machine's root.
	Find func(context.Context, *host.Host) (plan.Answer, error) `yaml:"-" json:"-"`

	// look is Find for the rules of the table. It gets the row's paths and what the
	// other rules of the run plan.
	look func(*draft)
	// ofNodes says that the rule finds what keeps a node from working. Spec.Node
	// decides whether the rule runs.
	ofNodes bool
	// own says that the rule is an operator's.
	own bool
	// sparesOwned says that files of packages stay. neverOwned are patterns of
	// files for which the packages are not read.
	sparesOwned bool
	neverOwned  []string
	// notes says that findings are notes, unless rules select this rule
	// by its ID.
	notes bool
}

// taken has the actions that rules last planned for files and trees, by the
// rule's ID.
type taken map[string]map[string]plan.Verb

func (t taken) note(rule string, actions []plan.Action) {
	verbs := map[string]plan.Verb{}
	for _, a := range actions {
		verbs[a.Target] = a.Verb
	}
	if delete(t, rule); t != nil && len(verbs) > 0 {
		t[rule] = verbs
	}
}

// has reports whether a file, or a folder above it, is removed.
func (t taken) has(name string) bool {
	for ; name != "/" && name != "."; name = path.Dir(name) {
		if t.by(name, plan.Remove, plan.Empty) {
			return true
		}
	}
	return false
}

// inWalk is has for an entry of a walk below top that enters no removed folder.
// So the folders between top and the entry need no look.
func (t taken) inWalk(top, name string) bool {
	if name == top {
		return t.has(name)
	}
	return t.by(name, plan.Remove, plan.Empty)
}

// by reports whether a rule does one of these actions to a path.
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
	hash bool // hash removed files
	run
}

func (i item) ID() string { return i.Rule.ID }

func (i item) Phase() string { return string(i.Rule.Phase) }

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
	if i.Find == nil && i.look == nil {
		return i.planPaths(ctx, h)
	}
	answer, err := i.Rule.plan(ctx, h, i.run)
	if i.own {
		if refused := i.judge(ctx, h, removals(answer.Actions)); refused != nil {
			return plan.Answer{}, errors.Join(err, refused)
		}
	}
	return answer, err
}

func (i item) planPaths(ctx context.Context, h *host.Host) (plan.Answer, error) {
	d := &draft{ctx: ctx, h: h}
	names := d.matching(i.Paths...)
	kept, err := findKeeps(h, i.Keep)
	if d.failed(err) {
		return plan.Answer{}, d.err
	}
	var errs []error
	for _, name := range names {
		found, err := planKeeping(h, i.Verb, name, i.Why, kept)
		d.answer.Add(found)
		errs = append(errs, err)
	}
	err = errors.Join(errs...)
	if i.sparesOwned && err == nil {
		d.answer.Actions, err = i.spareOwned(ctx, h, d.answer.Actions)
	}
	if i.own {
		if refused := i.judge(ctx, h, d.answer.Actions); refused != nil {
			return plan.Answer{}, errors.Join(err, refused)
		}
	}
	return d.answer, err
}

// matching lists the paths on this machine that match patterns, and the foreign
// mounts that were not searched.
func matching(h *host.Host, paths []string) ([]string, []*host.ForeignMount, error) {
	patterns, err := places(h, paths)
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

// removals are the actions that remove files, for judge.
func removals(actions []plan.Action) []plan.Action {
	return slices.DeleteFunc(slices.Clone(actions), func(a plan.Action) bool {
		return !path.IsAbs(a.Target) || a.Verb != plan.Remove && a.Verb != plan.Empty
	})
}

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

// Plan returns the answer of a rule with a function, outside of a run.
func (r Rule) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	return r.plan(ctx, h, run{})
}

func (r Rule) plan(ctx context.Context, h *host.Host, run run) (plan.Answer, error) {
	if r.look == nil {
		return r.Find(ctx, h)
	}
	d := &draft{ctx: ctx, h: h, paths: r.Paths, run: run}
	r.look(d)
	if r.notes || r.Breaks != nil && r.Breaks.Note {
		d.answer.Notes, d.answer.Findings = d.answer.Findings, nil
	}
	return d.answer, d.err
}
