package plan

import (
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Schema names the report's form; it changes when a reader would break.
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
	Unknown  Result = "unknown"  // 2: the machine would not tell
	// Unfinished is what a report says from before the work starts until the
	// work ends: a run that is interrupted leaves it.
	Unfinished Result = "unfinished" // 1
)

// ExitCode is what a command with this result exits with.
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

// Machine says which machine a report is about.
type Machine struct {
	Distro  string `json:"distro,omitempty"`  // ID of os-release(5)
	Version string `json:"version,omitempty"` // VERSION_ID of os-release(5)
	Arch    string `json:"arch,omitempty"`    // in Go's spelling: amd64, arm64
	Root    string `json:"root"`              // "/" for the live machine
}

// Totals sum up a report.
type Totals struct {
	Items   int `json:"items"`
	Changed int `json:"changed"`
	Actions int `json:"actions"`
	// Findings are what only a person can resolve.
	Findings int `json:"findings"`
	host.Removal
}

// Report is what a provision, a scrub or an audit hands back.
type Report struct {
	Schema   string    `json:"schema"`
	Command  string    `json:"command"`
	Tool     string    `json:"tool"`            // version of eksnode
	Build    string    `json:"build,omitempty"` // Packer's name of the build
	Machine  Machine   `json:"machine"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Result   Result    `json:"result"`
	Error    string    `json:"error,omitempty"`
	// Err is what kept the run from starting, with its parts; nil otherwise.
	Err    error  `json:"-"`
	Totals Totals `json:"totals"`
	// Outcomes is what was done; empty for dry runs and audits.
	Outcomes []Outcome `json:"outcomes,omitempty"`
	// Plan is what is left to do: what a dry run would do, or what an audit
	// found.
	Plan []Planned `json:"plan,omitempty"`
	// Audit is the audit that ends a scrub; nil when there was none. In a dry
	// run it is what that audit would find beside Plan.
	Audit *Audit `json:"audit,omitempty"`
	// Omitted is how many entries the lists lack, because the report was too
	// large to be sent.
	Omitted int `json:"omitted,omitempty"`
}

// Begun is the report of a run that has not ended. It is written before the
// work starts, so that no report of an earlier run outlives an interruption.
func Begun(command, tool, root string, now time.Time) Report {
	return Report{
		Schema: Schema, Command: command, Tool: tool, Machine: Machine{Root: root}, Started: now, Result: Unfinished,
		Error: "the run is at work, or was interrupted before its end",
	}
}

// Applied fills in what Apply did. Findings keep the result from being OK: an
// image that may be dirty must not pass silently.
func (r *Report) Applied(outcomes []Outcome, err error) {
	r.Outcomes, r.Result = outcomes, OK
	left := unresolved(outcomes)
	switch {
	case err != nil:
		r.Result, r.Error = Failure, err.Error()
	case len(left) > 0:
		r.Result, r.Error = Findings, toResolve(left)
	}
	for _, o := range outcomes {
		r.Totals.Items++
		r.Totals.Actions += len(o.Actions)
		r.Totals.Findings += len(o.Findings)
		if o.Status == Done {
			r.Totals.Changed++
		}
		for _, a := range o.Actions {
			r.Totals.Add(a.Removal)
		}
	}
}

// Audited fills in what an audit found. A rule that could not look makes the
// result Unknown, which is neither clean nor dirty.
func (r *Report) Audited(list []Planned, items int) {
	r.pending(list, items, Clean, Findings, Unknown)
}

// Dry fills in what a dry run would do.
func (r *Report) Dry(list []Planned, items int) {
	r.pending(list, items, DryRun, DryRun, Failure)
}

func (r *Report) pending(list []Planned, items int, nothing, some, broken Result) {
	r.Plan, r.Result, r.Totals.Items = list, nothing, items
	var errs []string
	for _, p := range list {
		r.Totals.Actions += len(p.Actions)
		r.Totals.Findings += len(p.Findings)
		for _, a := range p.Actions {
			r.Totals.Add(a.Removal)
		}
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
