package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// output is where and how a command reports.
type output struct {
	format string // one of formats
	report string // file for the JSON report, or empty
	to     *destination
}

func (o *output) flags(cmd *cobra.Command) {
	formatFlag(cmd, &o.format, "text", "json", "sarif", "junit")
	cmd.Flags().StringVar(&o.report, "report", "", "file for the JSON report")
}

// begin checks the flags, before anything is done whose report could not be
// written then. A report that is there already is not of this run: until that
// ends, one without a result is in its place. A run that only looks leaves no
// file where there is none, since it might find it.
func (o *output) begin(cmd *cobra.Command, run plan.Report, looks bool) (err error) {
	if o.report == "" {
		return nil
	}
	if o.to, err = openDestination(cmd.Context(), o.report); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	if o.to.stream != nil || looks && !o.to.exists {
		return nil
	}
	run.Schema, run.Tool, run.Started = plan.Schema, version.String(), time.Now().UTC()
	run.Result, run.Error = plan.Unfinished, "the run has not ended, or was killed"
	if err := o.write(run); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

// write writes the report.
func (o *output) write(r plan.Report) error {
	var text bytes.Buffer
	if err := printJSON(&text, r); err != nil {
		return err
	}
	return o.to.write(text.Bytes())
}

// finish prints the report and turns its result into the exit code. A result
// that is not 0 is said by the code also where the report cannot be written.
func (o *output) finish(cmd *cobra.Command, r plan.Report) error {
	var err error
	if o.to != nil {
		if err = o.write(r); err != nil {
			err = fmt.Errorf("writing the report: %w", err)
		}
	}
	return errors.Join(formats[o.format](cmd.OutOrStdout(), r), err, resultError(r))
}

// printReport writes a report for a person.
func printReport(w io.Writer, r plan.Report) error {
	p := &printer{w: w}
	p.plan(r.Plan)
	for _, o := range r.Outcomes {
		p.findings(o.Item, o.Findings)
	}
	p.plan(audited(r))
	p.verdict(r)
	switch {
	case r.Audit != nil:
		p.line("%s", r.Audit)
	case r.Command == string(agent.Scrub) && r.Result != plan.Failure:
		p.line("%s", plan.NoAudit)
	}
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, plan.Printable(fmt.Sprintf(format, args...))+"\n")
	}
}

// shown is a name as it is or, where it would break the line or is no text, in
// Go's quotes.
func shown(name string) string {
	if plan.PrintableLine(name) == name {
		return name
	}
	return strconv.Quote(name)
}

// line is a name or a reason that must not break its line.
func line(text string) string { return plan.PrintableLine(text) }

func (p *printer) plan(list []plan.Planned) {
	phase := ""
	for _, planned := range list {
		if planned.Phase != phase && planned.Phase != planned.Item {
			phase = planned.Phase
			p.line("%s:", line(phase))
		}
		for _, a := range planned.Actions {
			p.line("  %-8s %s%s  (%s: %s)", a.Verb, shown(a.Target), size(a), line(planned.Item), line(a.Reason))
		}
		p.findings(planned.Item, planned.Findings)
		if planned.Error != "" {
			p.line("  %-8s %s", "error", planned.Error)
		}
	}
}

// findings prints what only a person can resolve.
func (p *printer) findings(item string, list []plan.Finding) {
	for _, f := range list {
		p.line("  %-8s %s  (%s: %s)", "finding", shown(f.Target), line(item), line(f.Reason))
	}
}

func (p *printer) verdict(r plan.Report) {
	switch r.Result {
	case plan.Clean:
		p.line("PASS: %s, nothing left", count(r.Totals.Items, "rule"))
	case plan.Findings:
		p.line("FAIL: %s", found(r))
		p.line("next: %s", next(r))
	case plan.Unknown:
		if len(problems(r)) == 0 { // it did not come so far
			p.line("UNKNOWN: %s", r.Error)
			return
		}
		p.line("UNKNOWN: the machine would not tell everything; see the errors above")
	case plan.DryRun:
		p.phases(r)
		left := ""
		if r.Totals.Findings > 0 {
			left = fmt.Sprintf(", and %s for a person to decide", count(r.Totals.Findings, "finding"))
		}
		p.line("PLAN: %s, %s, %s%s; nothing was changed", count(r.Totals.Actions, "action"), count(int(r.Totals.Entries), "file"), plan.Size(r.Totals.Bytes), left)
	case plan.OK:
		p.line("DONE: %s", done(r))
	default:
		p.line("FAILED: %s", r.Error)
	}
}

// phases sums a scrub's plan up by phase.
func (p *printer) phases(r plan.Report) {
	if r.Command != "scrub" || len(r.Plan) < 2 {
		return
	}
	for i := 0; i < len(r.Plan); {
		phase, actions, files, bytes := r.Plan[i].Phase, 0, int64(0), int64(0)
		for ; i < len(r.Plan) && r.Plan[i].Phase == phase; i++ {
			for _, a := range r.Plan[i].Actions {
				actions, files, bytes = actions+1, files+a.Entries, bytes+a.Bytes
			}
		}
		p.line("%-16s %11s %12s %10s", phase, count(actions, "action"), count(int(files), "file"), plan.Size(bytes))
	}
}

// next says what to do about findings: what a scrub does, and what only a
// person can.
func next(r plan.Report) string {
	var scrubs int
	var rules []string
	for _, p := range problems(r) {
		scrubs += len(p.Actions)
		if len(p.Findings) > 0 && !slices.Contains(rules, p.Item) {
			rules = append(rules, p.Item)
		}
	}
	var steps []string
	if scrubs > 0 {
		command := "eksnode scrub"
		if r.Machine.Root != "/" {
			command += " --root " + shown(r.Machine.Root)
		}
		steps = append(steps, fmt.Sprintf("%s settles %s", command, count(scrubs, "finding")))
	}
	if len(rules) > 0 {
		steps = append(steps, "repair what a person has to decide, or accept it with --skip-rules "+strings.Join(rules, ","))
	}
	return strings.Join(steps, "; ")
}

// problems are what an audit found or, of what was applied, what was left to a
// person and what went wrong, by item.
func problems(r plan.Report) []plan.Planned {
	list := slices.Clone(r.Plan)
	for _, o := range r.Outcomes {
		if len(o.Findings) > 0 || o.Error != "" {
			list = append(list, plan.Planned{Item: o.Item, Phase: o.Phase, Findings: o.Findings, Error: o.Error})
		}
	}
	return append(list, audited(r)...)
}

// audited is what the audit that ends a scrub found beside what the scrub
// itself has left to a person.
func audited(r plan.Report) []plan.Planned {
	if r.Audit == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Audit.Plan), func(p plan.Planned) bool {
		return slices.ContainsFunc(r.Outcomes, func(o plan.Outcome) bool { return o.Item == p.Item && len(o.Findings) > 0 })
	})
}

// found says how much a report says is left, and what was done.
func found(r plan.Report) string {
	findings, rules := 0, 0
	for _, p := range problems(r) {
		findings += len(p.Actions) + len(p.Findings)
		rules++
	}
	text := fmt.Sprintf("%s by %s of %d", count(findings, "finding"), count(rules, "rule"), r.Totals.Items)
	if len(r.Outcomes) > 0 {
		text += ", for a person to decide; " + done(r)
	}
	return text
}

func done(r plan.Report) string {
	return fmt.Sprintf("%d of %s changed, %s, %s and %s removed",
		r.Totals.Changed, count(r.Totals.Items, "item"), count(r.Totals.Actions, "action"), count(int(r.Totals.Entries), "file"), plan.Size(r.Totals.Bytes))
}

// count writes a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func size(a plan.Action) string {
	if a.Entries == 0 && a.Bytes == 0 {
		return ""
	}
	if a.Entries > 1 {
		return fmt.Sprintf("  %d files, %s", a.Entries, plan.Size(a.Bytes))
	}
	return "  " + plan.Size(a.Bytes)
}

// progressSink tells a person what Apply does.
type progressSink struct {
	p *printer
	// flags says that the person used flags.
	flags bool
}

func (s progressSink) Begin(string, string, int)                  {}
func (s progressSink) Progress(string, plan.Action, int64, int64) {}
func (s progressSink) End(o plan.Outcome) {
	switch o.Status {
	case plan.Done:
		s.p.line("%-26s done, %s, %d ms", o.Item, count(len(o.Actions), "action"), o.Milliseconds)
	case plan.Failed:
		if s.flags {
			o.Error = surface.Rewrite(o.Error, o.Err)
		}
		s.p.line("%-26s FAILED: %s", o.Item, strings.TrimPrefix(o.Error, o.Item+": "))
	}
}
