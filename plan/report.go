package plan

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Schema names the form of reports; docs/reference/report.schema.json describes
// that form. A new form that would break readers gets another name.
const Schema = "eksnode.report/v1"

// Result is a report's verdict.
type Result string

// The results, with the exit code the command gives them.
const (
	OK       Result = "ok"       // 0: everything is done
	DryRun   Result = "planned"  // 0: a dry run
	Clean    Result = "clean"    // 0: an audit found nothing
	Findings Result = "findings" // 1: something is left
	Failure  Result = "failed"   // 1: something could not be done
	Unknown  Result = "unknown"  // 2: some checks could not run
	// Unfinished is the result from before the work starts until the work ends.
	// An interrupted run leaves a report with this result.
	Unfinished Result = "unfinished" // 1
)

// ExitCode is the exit code of a command with this result.
func (r Result) ExitCode() int {
	switch r {
	case OK, DryRun, Clean:
		return 0
	case Unknown:
		return 2
	default:
		return 1
	}
}

// Machine is the machine that a report is about.
type Machine struct {
	// Distro is the ID of os-release(5).
	Distro string `json:"distro,omitempty"`
	// Version is the VERSION_ID of os-release(5).
	Version string `json:"version,omitempty"`
	// Arch is amd64 or arm64.
	Arch string `json:"arch,omitempty"`
	// Root is the folder of the image root; "/" is the live machine, or the root
	// file system of Disk or Snapshot.
	Root string `json:"root"`
	// Disk is the disk image that an audit read; empty for a machine or a folder.
	Disk string `json:"disk,omitempty"`
	// Partition is the number of the disk's root partition; 0 is a disk without
	// partitions.
	Partition int `json:"partition,omitempty"`
	// Digest is the content digest of the disk that an audit read.
	Digest string `json:"digest,omitempty"`
	// AMI is the ID of the AMI that an audit read; empty for a snapshot by itself.
	AMI string `json:"ami,omitempty"`
	// Snapshot is the ID of the EBS snapshot that an audit read.
	Snapshot string `json:"snapshot,omitempty"`
	// Region is the AWS region of Snapshot.
	Region string `json:"region,omitempty"`
	// Boots are the boots that the machine's journal has when the run begins. A root that
	// never booted has none, and neither has one after a scrub.
	Boots []Boot `json:"boots,omitempty"`
}

// Report is the result of a provision, a scrub or an audit.
type Report struct {
	Schema string `json:"schema"`
	// Command is provision, scrub or audit.
	Command string `json:"command"`
	// Tool is the version of eksnode.
	Tool string `json:"tool"`
	// Build is Packer's name of the build.
	Build    string    `json:"build,omitempty"`
	Machine  Machine   `json:"machine"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Result   Result    `json:"result"`
	// Error says why the result is not a success.
	Error string `json:"error,omitempty"`
	// Warnings are for a person and change no result, such as the end of the
	// distribution's support.
	Warnings []string `json:"warnings,omitempty"`
	Totals   Totals   `json:"totals"`
	// Phases sum up the run by phase, in order.
	Phases []PhaseTotals `json:"phases,omitempty"`
	// Outcomes are the items of a run with their actions; empty for dry runs and
	// audits.
	Outcomes []Outcome `json:"outcomes,omitempty"`
	// Plan is what is left to do: the actions of a dry run, or what an audit
	// found.
	Plan []Planned `json:"plan,omitempty"`
	// Rules are all rules of an audit with their outcomes; empty for other runs.
	Rules []Check `json:"rules,omitempty"`
	// Audit is the audit that ends a scrub; nil without one. In a dry run it has
	// what that audit would find in addition to Plan.
	Audit *Audit `json:"audit,omitempty"`
	// Image is what the image has after a provision that succeeded.
	Image *Contents `json:"image,omitempty"`
	// Omitted is how many entries the lists lack, because the report was too
	// large to be sent.
	Omitted int `json:"omitted,omitempty"`
}

// Begun is the report of a run that has not ended. It is written before the
// work starts, so that an interrupted run leaves no earlier report in place.
func Begun(command, tool, root string, now time.Time) Report {
	return Report{
		Schema: Schema, Command: command, Tool: tool, Machine: Machine{Root: root}, Started: now, Result: Unfinished,
		Error: "the run has not ended, or was interrupted",
	}
}

// Applied fills in the outcomes of Apply. Findings keep the result from being
// OK: an image that may be dirty must not pass silently.
func (r *Report) Applied(outcomes []Outcome, err error) {
	r.Outcomes, r.Result, r.Phases, r.Totals = outcomes, OK, PhasesOf(outcomes), Totals{}
	left := unresolved(outcomes)
	switch {
	case err != nil:
		r.Result, r.Error = Failure, err.Error()
	case len(left) > 0:
		r.Result, r.Error = Findings, toResolve(left)
	}
	for _, o := range outcomes {
		r.Totals.Items++
		r.Totals.add(o.Actions, o.Findings)
		if o.Status == Done {
			r.Totals.Changed++
		}
	}
}

// Repeated adds what a second run of some items did. err is that of Apply.
func (r *Report) Repeated(again []Outcome, err error) {
	all := slices.Clone(r.Outcomes)
	for _, o := range again {
		n := slices.IndexFunc(all, func(first Outcome) bool { return first.Item == o.Item })
		o.Actions = slices.Concat(all[n].Actions, o.Actions)
		o.Milliseconds += all[n].Milliseconds
		if o.Status == Unchanged {
			o.Status = all[n].Status
		}
		all[n] = o
	}
	r.Applied(all, err)
}

// Audited fills in the result of an audit: what its rules found, and the rules
// that looked. A rule that could not run makes the result Unknown, which is
// neither clean nor dirty.
func (r *Report) Audited(list []Planned, asked []Check) {
	r.pending(list, asked, Clean, Findings, Unknown)
}

// Dry fills in the plan of a dry run and the items that it planned.
func (r *Report) Dry(list []Planned, asked []Check) {
	r.pending(list, asked, DryRun, DryRun, Failure)
}

func (r *Report) pending(list []Planned, asked []Check, nothing, some, broken Result) {
	r.Plan, r.Result, r.Totals.Items, r.Phases = list, nothing, len(asked), plannedPhases(list, asked)
	var errs []string
	for _, p := range list {
		r.Totals.add(p.Actions, p.Findings)
		if p.Error != "" {
			errs = append(errs, p.Error)
		}
	}
	switch {
	case len(errs) > 0:
		r.Result, r.Error = broken, firstOf(errs)
	case r.Totals.Actions+r.Totals.Findings > 0:
		r.Result = some
	}
}

// Checks are all rules of the audit, or of the audit that ends a scrub.
func (r *Report) Checks() []Check {
	if r.Audit != nil {
		return r.Audit.Rules
	}
	return r.Rules
}

// Problems are everything in the report that needs attention, by item: what an
// audit or dry run found, what was left to a person, and what failed.
func (r *Report) Problems() []Planned {
	list := slices.Clone(r.Plan)
	for _, o := range r.Outcomes {
		if len(o.Findings) > 0 || o.Error != "" {
			list = append(list, Planned{Item: o.Item, Phase: o.Phase, Findings: o.Findings, Error: o.Error})
		}
	}
	return append(list, r.FoundAfter()...)
}

// FoundAfter is what the audit that ends a scrub found in addition to the
// scrub's own findings.
func (r *Report) FoundAfter() []Planned {
	if r.Audit == nil {
		return nil
	}
	var list []Planned
	for _, p := range r.Audit.Plan {
		i := slices.IndexFunc(r.Outcomes, func(o Outcome) bool { return o.Item == p.Item })
		if i >= 0 {
			p.Findings = slices.DeleteFunc(slices.Clone(p.Findings), func(f Finding) bool {
				return slices.Contains(r.Outcomes[i].Findings, f)
			})
		}
		if len(p.Actions)+len(p.Findings) > 0 || p.Error != "" {
			list = append(list, p)
		}
	}
	return list
}

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

// EncodeJSON encodes a value as indented JSON that is safe to print.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return show.JSON(b.Bytes()), nil
}
