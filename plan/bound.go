package plan

// textMost is how many bytes an error may have in a bounded report.
const textMost = 64 << 10

// Bounded returns the report with lists of at most that many entries and with short
// errors; Omitted counts the entries that are missing.
func (r Report) Bounded(most int) Report {
	r.Error = start(r.Error)
	r.Warnings = first(r.Warnings, most, &r.Omitted)
	r.Outcomes = first(r.Outcomes, most, &r.Omitted)
	for i, o := range r.Outcomes {
		r.Outcomes[i] = o.bounded(most, &r.Omitted)
	}
	r.Plan = boundedPlan(r.Plan, most, &r.Omitted)
	if r.Audit != nil {
		a := *r.Audit
		a.Error = start(a.Error)
		a.Plan = boundedPlan(a.Plan, most, &r.Omitted)
		a.Rules = boundedChecks(a.Rules, most, &r.Omitted)
		r.Audit = &a
	}
	r.Rules = boundedChecks(r.Rules, most, &r.Omitted)
	r.Phases = first(r.Phases, most, &r.Omitted)
	if r.Image != nil {
		i := *r.Image
		i.Components = first(i.Components, most, &r.Omitted)
		i.Packages = first(i.Packages, most, &r.Omitted)
		i.Images = first(i.Images, most, &r.Omitted)
		r.Image = &i
	}
	return r
}

// Bounded returns the outcome with lists of at most that many entries.
func (o Outcome) Bounded(most int) Outcome {
	var omitted int
	return o.bounded(most, &omitted)
}

func (o Outcome) bounded(most int, omitted *int) Outcome {
	o.Error = start(o.Error)
	o.Actions = boundedActions(o.Actions, most, omitted)
	o.Findings = first(o.Findings, most, omitted)
	return o
}

func boundedPlan(list []Planned, most int, omitted *int) []Planned {
	list = first(list, most, omitted)
	for i := range list {
		list[i].Error = start(list[i].Error)
		list[i].Actions = boundedActions(list[i].Actions, most, omitted)
		list[i].Findings = first(list[i].Findings, most, omitted)
	}
	return list
}

func boundedChecks(list []Check, most int, omitted *int) []Check {
	list = first(list, most, omitted)
	for i := range list {
		list[i].Reason = start(list[i].Reason)
		list[i].Notes = first(list[i].Notes, most, omitted)
	}
	return list
}

func boundedActions(list []Action, most int, omitted *int) []Action {
	list = first(list, most, omitted)
	for i := range list {
		list[i].Files = first(list[i].Files, most, omitted)
		list[i].Packages = first(list[i].Packages, most, omitted)
	}
	return list
}

// first copies the first entries of a list.
func first[T any](list []T, most int, omitted *int) []T {
	if len(list) > most {
		*omitted += len(list) - most
		list = list[:most]
	}
	return append([]T(nil), list...)
}

func start(text string) string {
	if len(text) <= textMost {
		return text
	}
	return text[:textMost] + " …"
}
