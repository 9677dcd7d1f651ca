package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Audit is the audit that ends a scrub, within the scrub's report.
type Audit struct {
	// Result is clean, findings or unknown.
	Result Result `json:"result"`
	// Items is the number of rules that looked at the machine.
	Items int `json:"items"`
	// Error says why rules could not run.
	Error string `json:"error,omitempty"`
	// Plan is what the rules found.
	Plan []Planned `json:"plan,omitempty"`
	// Rules are all rules with their outcomes.
	Rules []Check `json:"rules,omitempty"`
}

// Concluded adds the audit that ends a scrub: what its rules found, and the
// rules that looked. With fails, the result of the audit becomes the result of
// the run: unknown outweighs findings, and a failure of the scrub itself
// outweighs both. Findings of a dry run change nothing, because the scrub has
// not run yet.
func (r *Report) Concluded(list []Planned, asked []Check, fails bool) {
	var a Report
	a.Audited(list, asked)
	r.Audit = &Audit{Result: a.Result, Items: len(asked), Error: a.Error, Plan: list, Rules: asked}
	if !fails || a.Result == Clean || r.Result == Failure {
		return
	}
	switch {
	case a.Result == Findings && r.Result != DryRun:
		r.Result, r.Error = Findings, r.findings()
	case a.Result == Unknown:
		told := "some checks of the audit could not run: " + a.Error
		if r.Error != "" {
			told = r.Error + "; " + told
		}
		r.Error = told
		if r.Result == DryRun {
			r.Result = Failure
			return
		}
		r.Result = Unknown
	}
}

// findings is the error that names what a scrub and its audit left, each once.
func (r *Report) findings() string {
	unresolved := unresolved(r.Outcomes)
	var again []string
	for _, p := range r.Audit.Plan {
		for _, a := range p.Actions {
			again = append(again, fmt.Sprintf("%s %s (%s)", a.Verb, a.Target, p.Item))
		}
		for _, f := range p.Findings {
			if name := f.of(p.Item); !slices.Contains(unresolved, name) {
				unresolved = append(unresolved, name)
			}
		}
	}
	var parts []string
	if len(unresolved) > 0 {
		parts = append(parts, toResolve(unresolved))
	}
	if len(again) > 0 {
		parts = append(parts,
			"a running program has written again after the scrub, stop that program first: "+firstOf(again))
	}
	return strings.Join(parts, "; ")
}

// unresolved lists the findings of outcomes, as errors name them.
func unresolved(outcomes []Outcome) []string {
	var list []string
	for _, o := range outcomes {
		for _, f := range o.Findings {
			list = append(list, f.of(o.Item))
		}
	}
	return list
}

func (f Finding) of(item string) string {
	return fmt.Sprintf("%s (%s): %s", f.Target, item, f.Reason)
}

func toResolve(findings []string) string {
	return "a person has to decide, or skip the rule: " + firstOf(findings)
}

// namedMost is how many findings an error names; the report has all findings.
const namedMost = 25

func firstOf(texts []string) string {
	if more := len(texts) - namedMost; more > 0 {
		texts = append(texts[:namedMost:namedMost], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// String sums the audit up on one line. Plan has the errors.
func (a *Audit) String() string {
	if a.Result == Clean {
		return fmt.Sprintf("audit clean: %s, nothing left", show.Count(a.Items, "rule"))
	}
	left, failed := 0, 0
	for _, p := range a.Plan {
		left += len(p.Actions) + len(p.Findings)
		if p.Error != "" {
			failed++
		}
	}
	said := fmt.Sprintf("audit %s: %s, %s", a.Result, show.Count(a.Items, "rule"), show.Count(left, "finding"))
	if failed > 0 {
		said += fmt.Sprintf("; %s could not run", show.Count(failed, "rule"))
	}
	return said
}

// NoAudit is the line for a scrub that did not end with an audit.
const NoAudit = "audit off: no rule has looked for secrets and other findings of the inspect phase"

// Verdict is the outcome of one rule in an audit.
type Verdict string

// The verdicts, as reports print them.
const (
	Passed        Verdict = "passed"         // the rule found nothing
	Found         Verdict = "findings"       // the rule found something
	NotApplicable Verdict = "not-applicable" // the rule is not for this machine, or not for an audit
	LeftOut       Verdict = "skipped"        // the options leave the rule out
	Unchecked     Verdict = "unknown"        // the rule could not run
)

// Check is one rule of an audit with its outcome. An audit's report lists a
// Check for every rule, also for rules that found nothing.
type Check struct {
	Item    string  `json:"item"`
	Phase   string  `json:"phase"`
	Outcome Verdict `json:"outcome"`
	// Reason says why a rule is skipped or not applicable, or why it could not run.
	Reason string `json:"reason,omitempty"`
	// Notes are for a person who wants to know. They change no outcome.
	Notes []Finding `json:"notes,omitempty"`
}

// check is the item's outcome; notApplicable says why the item is not for the
// host.
func (p Planned) check(notApplicable string) Check {
	c := Check{Item: p.Item, Phase: p.Phase, Outcome: Passed}
	switch {
	case p.Error != "":
		c.Outcome, c.Reason = Unchecked, p.Error
	case len(p.Actions)+len(p.Findings) > 0:
		c.Outcome = Found
	case notApplicable != "":
		c.Outcome, c.Reason = NotApplicable, notApplicable
	}
	return c
}

// Contents are the versions and sizes of what an image has after a provision.
type Contents struct {
	// Kubernetes is the version of the kubelet, such as 1.36.3.
	Kubernetes string `json:"kubernetes"`
	// Components are the programs that a node needs, such as containerd.
	Components []Component `json:"components"`
	// Packages are the distribution's packages that the spec demands.
	Packages []Package `json:"packages,omitempty"`
	// Images are the container images that containerd has.
	Images []ImageContents `json:"images,omitempty"`
	// Tailoring is the XCCDF tailoring by which the image was hardened; empty without
	// hardening.
	Tailoring string `json:"tailoring,omitempty"`
}

// Origin says where a component comes from.
type Origin string

// The origins.
const (
	FromDownload     Origin = "download"     // a publisher's file
	FromPackage      Origin = "package"      // the distribution's package
	FromDistribution Origin = "distribution" // part of the distribution's own image
)

// Component is one program, or several from one archive, with its version.
type Component struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Origin  Origin `json:"origin"`
	// Bytes is the size of the component's files; 0 when unknown.
	Bytes int64 `json:"bytes,omitempty"`
}

// Package is one package of the distribution.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Added says that this run installed the package.
	Added bool `json:"added"`
}

// ImageContents is one container image.
type ImageContents struct {
	// Name is the name that pods use.
	Name   string `json:"name"`
	Digest string `json:"digest"`
	// Bytes is the size of the image's archive; 0 when unknown.
	Bytes int64 `json:"bytes,omitempty"`
}
