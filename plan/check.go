package plan

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
