package plan

import "cmp"

// Finding is something that only a person can resolve.
type Finding struct {
	// Target is the subject of the finding, such as a path, a unit or a package.
	Target string `json:"target"`
	// Reason says what is wrong and what to do, for the person who resolves it.
	Reason string `json:"reason"`
}

// Answer is the result of planning an Item: the actions that are left to do, and
// the findings, which stay until a person resolves them.
type Answer struct {
	Actions  []Action
	Findings []Finding
	// Notes are for a person who wants to know. They change no result.
	Notes []Finding
	// NotApplicable says why the item is not for this host; empty for an item
	// that is.
	NotApplicable string
}

// Acts is an answer with these actions.
func Acts(actions ...Action) Answer { return Answer{Actions: actions} }

// Finds is an answer with one finding.
func Finds(target, reason string) Answer {
	return Answer{Findings: []Finding{{target, reason}}}
}

// Act adds actions.
func (a *Answer) Act(actions ...Action) { a.Actions = append(a.Actions, actions...) }

// Find adds a finding.
func (a *Answer) Find(target, reason string) {
	a.Findings = append(a.Findings, Finding{target, reason})
}

// Add adds another answer's actions and findings.
func (a *Answer) Add(more Answer) {
	a.Actions, a.Findings = append(a.Actions, more.Actions...), append(a.Findings, more.Findings...)
	a.Notes = append(a.Notes, more.Notes...)
	a.NotApplicable = cmp.Or(a.NotApplicable, more.NotApplicable)
}

// IsEmpty reports whether nothing is left, neither to do nor for a person.
func (a Answer) IsEmpty() bool { return len(a.Actions) == 0 && len(a.Findings) == 0 }
