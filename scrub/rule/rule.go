// Package rule says what a row of the scrub is, and has what the functions of rows
// share: the draft of an answer, paths with wildcards, accounts and homes, foreign
// mounts, and the files of packages. It knows no row: those are in package rules.
package rule

import (
	"cmp"
	"slices"

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

// Phases lists the phases in the order they run.
var Phases = []Phase{Quiesce, Unmount, State, Restored, Identity, Caches, Access, Inspect}

// Report is the verb of rules that only have findings. No action has it.
const Report plan.Verb = "report"

// Rule is one row of the table: files or state that a node image must not
// contain. A rule file has the fields with names in JSON, and eksnode's own rows also those
// with names in YAML only.
type Rule struct {
	// ID names the rule in flags, reports and documentation, with lower-case letters,
	// digits and hyphens.
	ID string `json:"id"`
	// Phase is when the rule runs. In a rule file, it is state, identity, "caches and
	// logs" or access.
	Phase Phase `json:"phase"`
	// Groups are other names that select the rule, such as "kubelet".
	Groups []string `json:"groups,omitempty"`
	// Verb is the action on each path: plan.Remove removes it, plan.Empty keeps
	// the file or directory and removes its contents. A Look may plan any action;
	// the verb then says what the rule mostly does.
	Verb plan.Verb `json:"action" yaml:"action"`
	// Paths are absolute, may contain wildcards of path.Match, and may start
	// with "~/" for the home folder of every account in passwd(5). The paths of a
	// Look may contain "/**": it searches that folder at any depth, see Draft.Walk.
	Paths []string `json:"paths"`
	// Keep are paths in the form of Paths. A kept path stays with everything
	// below it, at any depth of what Paths match, and so do the folders on the
	// way to it.
	Keep []string `json:"keep,omitempty"`
	// Owned says that the rule may remove files that a package owns. Rules of the table
	// may.
	Owned bool `json:"owned,omitempty"`
	// Owner is the program that writes the files.
	Owner string `json:"owner,omitempty"`
	// Why says what goes wrong if the image contains the files.
	Why string `json:"why"`
	// Regenerated says what creates the files again on the new machine;
	// "nothing" if that is not needed.
	Regenerated string `json:"regenerated,omitempty"`
	// Source is where the facts come from.
	Source string `json:"source,omitempty"`
	// Applies reports whether the rule applies to this machine; nil means yes.
	// It may add findings.
	Applies func(*Draft) bool `json:"-" yaml:"-"`
	// Breaks describes the setting that a rule of BreakersGroup finds; nil for
	// other rules.
	Breaks *Breaker `json:"-" yaml:"breaks"`
	// Look plans the rule where Verb, Paths and Keep do not say everything. It gets the
	// row's paths in the draft, and acts on nothing else. It changes nothing; the actions
	// of its answer do. host.Files never leaves the machine's root.
	Look func(*Draft) `json:"-" yaml:"-"`
	// OfNodes says that the rule finds what keeps a node from working. Spec.Node
	// decides whether the rule runs.
	OfNodes bool `json:"-" yaml:"of_nodes"`
	// Own says that the rule is an operator's.
	Own bool `json:"-" yaml:"-"`
	// NeverOwned says that files of packages stay, and are patterns of files that no
	// package has: for those, the packages are not read. nil lets files of packages go.
	NeverOwned []string `json:"-" yaml:"never_owned"`
	// Notes says that findings are notes, unless rules select this rule
	// by its ID.
	Notes bool `json:"-" yaml:"notes"`
}

// Plan fills a draft with the row's paths: by Look or, without one, by paths.
func (r Rule) Plan(d *Draft, paths func(*Draft)) {
	d.Paths = r.Paths
	if r.Applies != nil && (!r.Applies(d) || d.Err != nil) {
		d.Answer.NotApplicable = "the rule is not for this machine"
		return
	}
	if r.Look != nil {
		paths = r.Look
	}
	paths(d)
	if r.Notes || r.Breaks != nil && r.Breaks.Note {
		d.Answer.Notes, d.Answer.Findings = d.Answer.Findings, nil
	}
}

// AsOwn returns a rule of an operator as a row of the table.
func (r Rule) AsOwn() Rule {
	r.Own, r.Source = true, cmp.Or(r.Source, "a rule of the operator's own")
	if !slices.Contains(r.Groups, "own") {
		r.Groups = append([]string{"own"}, r.Groups...)
	}
	return r
}

// Names are the names that select the rule.
func (r Rule) Names() []string { return append([]string{r.ID, string(r.Phase)}, r.Groups...) }

// Named reports whether one of some names selects the rule.
func (r Rule) Named(names []string) bool {
	return slices.ContainsFunc(r.Names(), func(n string) bool { return slices.Contains(names, n) })
}

// BreakersGroup selects all rules about settings that break nodes.
const BreakersGroup = "join-breakers"

// Breaker is a setting that keeps a program of a node from working. Hardening
// sets most of them.
type Breaker struct {
	// Cause is the ID by which `eksnode diagnose` names the failure.
	Cause string
	// Program is what fails, Shows how, and Fix the smallest exception.
	Program, Shows, Fix string
	// Since is the first version that fails; in a row, empty for every version.
	Since string
	// Benchmarks are the benchmarks' rules that demand the setting, such as
	// "CIS 3.3.1" or "V-257970"; empty if none does. The numbers are those for
	// Debian 12, Ubuntu 24.04 and RHEL 9 unless another system is named.
	Benchmarks string
	// Note says that few nodes need what the setting takes away: the audit
	// reports a note, which changes no result.
	Note bool
	// Exempts are the rules of the SCAP Security Guide that demand the setting. Hardening
	// leaves them out.
	Exempts []string
}
