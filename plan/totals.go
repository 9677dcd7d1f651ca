package plan

import "github.com/eksnode/packer-plugin-eksnode/host"

// Totals sum up a report.
type Totals struct {
	// Items are the steps or rules of the run.
	Items   int `json:"items"`
	Changed int `json:"changed"`
	// Actions are those of a plan, or those that succeeded.
	Actions int `json:"actions"`
	// Findings are for a person to resolve.
	Findings int `json:"findings"`
	host.Removal
	// Fetched is the size of all downloads, in bytes.
	Fetched int64 `json:"fetched"`
}

// add counts an item's actions and findings.
func (t *Totals) add(actions []Action, findings []Finding) {
	t.Findings += len(findings)
	for _, a := range actions {
		if !a.Failed {
			t.Actions++
		}
		t.Add(a.Removal)
		t.Fetched += a.Fetched
	}
}

// PhaseTotals sum up one phase of a report.
type PhaseTotals struct {
	Phase string `json:"phase"`
	Totals
	// Failed are items that could not be done, or rules that could not run.
	Failed int `json:"failed"`
	// Skipped are items that did not start, because an earlier phase failed.
	Skipped int `json:"skipped"`
	// Milliseconds is the time that the phase took; 0 for plans.
	Milliseconds int64 `json:"ms"`
}

// phases is a list of totals by phase, in the order of the run.
type phases []PhaseTotals

// of returns the totals of a phase, which is added when missing.
func (l *phases) of(name string) *PhaseTotals {
	for i := range *l {
		if (*l)[i].Phase == name {
			return &(*l)[i]
		}
	}
	*l = append(*l, PhaseTotals{Phase: name})
	return &(*l)[len(*l)-1]
}

// PhasesOf sums up outcomes by phase.
func PhasesOf(outcomes []Outcome) []PhaseTotals {
	var list phases
	for _, o := range outcomes {
		p := list.of(o.Phase)
		p.Items++
		p.add(o.Actions, o.Findings)
		p.Milliseconds += o.Milliseconds
		switch o.Status {
		case Done:
			p.Changed++
		case Failed:
			p.Failed++
		case Skipped:
			p.Skipped++
		}
	}
	return list
}

// plannedPhases sums up a plan by phase. Every check counts as an item, also of
// rules with nothing left to do.
func plannedPhases(list []Planned, checks []Check) []PhaseTotals {
	var all phases
	for _, c := range checks {
		all.of(c.Phase).Items++
	}
	for _, planned := range list {
		p := all.of(planned.Phase)
		p.add(planned.Actions, planned.Findings)
		if planned.Error != "" {
			p.Failed++
		}
	}
	return all
}
