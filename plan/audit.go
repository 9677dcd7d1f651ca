package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Audit is the verdict of the audit that ends a scrub, within its report.
type Audit struct {
	Result Result    `json:"result"` // clean, findings or unknown
	Items  int       `json:"items"`  // rules that were asked
	Error  string    `json:"error,omitempty"`
	Plan   []Planned `json:"plan,omitempty"` // what is left
}

// Concluded adds the audit that ends a scrub. With fails, the audit's verdict
// is the run's too: unknown weighs more than findings, and a failure of the
// scrub itself more than both. Findings of a dry run change nothing, because
// nothing was done yet.
func (r *Report) Concluded(list []Planned, items int, fails bool) {
	var a Report
	a.Audited(list, items)
	r.Audit = &Audit{Result: a.Result, Items: items, Error: a.Error, Plan: list}
	if !fails || a.Result == Clean || r.Result == Failure {
		return
	}
	switch {
	case a.Result == Findings && r.Result != DryRun:
		r.Result, r.Error = Findings, r.findings()
	case a.Result == Unknown:
		told := "the audit could not look everywhere: " + a.Error
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
			if text := f.of(p.Item); !slices.Contains(unresolved, text) {
				unresolved = append(unresolved, text)
			}
		}
	}
	var parts []string
	if len(unresolved) > 0 {
		parts = append(parts, toResolve(unresolved))
	}
	if len(again) > 0 {
		parts = append(parts, "a running program has written again after the scrub, stop that program first: "+firstOf(again))
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

// of is an item's finding in an error.
func (f Finding) of(item string) string {
	return fmt.Sprintf("%s (%s): %s", f.Target, item, f.Reason)
}

// toResolve is the error of findings.
func toResolve(findings []string) string {
	return "a person has to decide, or skip the rule: " + firstOf(findings)
}

// namedMost is how many findings an error names; the report has them all.
const namedMost = 25

// firstOf joins the first of many texts.
func firstOf(texts []string) string {
	if more := len(texts) - namedMost; more > 0 {
		texts = append(texts[:namedMost:namedMost], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// String sums the audit up on one line.
func (a *Audit) String() string {
	if a.Result == Clean {
		return fmt.Sprintf("audit clean: nothing left by %d rules", a.Items)
	}
	left := 0
	for _, p := range a.Plan {
		left += len(p.Actions) + len(p.Findings)
	}
	text := fmt.Sprintf("audit %s: %d left, found by %d of %d rules", a.Result, left, len(a.Plan), a.Items)
	if a.Error != "" {
		text += "; could not look: " + a.Error
	}
	return text
}

// NoAudit is the line for a scrub that did not end with an audit.
const NoAudit = "audit off: no rule has looked for secrets and other findings of the inspect phase"
