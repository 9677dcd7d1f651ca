package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/console"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// answer prints a value as JSON, or a text for a person.
func answer(cmd *cobra.Command, output string, value any, text func(*printer)) error {
	if output == "json" {
		return writeJSON(cmd.OutOrStdout(), value)
	}
	p := newPrinter(cmd.OutOrStdout())
	text(p)
	return p.err
}

func (p *printer) table(rows [][]string) {
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	p.err = errors.Join(p.err, t.Flush())
}

// report prints a report for a person: warnings, the plan, what needs attention, a
// line for each phase of an audit, the closing table, and the result. verbose
// also prints the rules of an audit that found nothing.
func (p *printer) report(r plan.Report, verbose bool) {
	for _, text := range r.Warnings {
		p.line("  %-8s %s", "warning", line(text))
	}
	p.plan(r.Plan)
	for _, o := range r.Outcomes {
		p.findings(o.Item, o.Findings)
	}
	p.plan(r.FoundAfter())
	p.notes(r)
	if verbose {
		p.checks(r)
	}
	if r.Command == string(agent.Audit) {
		for _, phase := range r.Phases {
			p.line("%s", line(console.PhaseLine(r.Command, phase)))
		}
	}
	for _, text := range console.Table(&r) {
		p.line("%s", line(text))
	}
	if r.Machine.Digest != "" {
		p.line("digest: %s", line(r.Machine.Digest))
	}
	p.verdict(r)
	if text := console.AuditLine(&r); text != "" {
		p.line("%s", line(text))
	}
}

// checks prints the rules of an audit that found nothing, with their outcomes.
func (p *printer) checks(r plan.Report) {
	for _, c := range r.Checks() {
		switch c.Outcome {
		case plan.Found, plan.Unchecked: // printed above
		case plan.Passed:
			p.line("  %-14s %s", c.Outcome, line(c.Item))
		default:
			p.line("  %-14s %s: %s", c.Outcome, line(c.Item), line(c.Reason))
		}
	}
}

// notesMost is how many notes of a rule are printed; the report has all.
const notesMost = 20

// notes prints what a person may want to know.
func (p *printer) notes(r plan.Report) {
	for _, c := range r.Checks() {
		for _, n := range c.Notes[:min(len(c.Notes), notesMost)] {
			p.line("  %-8s %s  (%s: %s)", "note", shown(n.Target), line(c.Item), line(n.Reason))
		}
		if more := len(c.Notes) - notesMost; more > 0 {
			p.line("  %-8s %d more of %s; the report has all", "note", more, line(c.Item))
		}
	}
}

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

func (p *printer) findings(item string, list []plan.Finding) {
	for _, f := range list {
		p.line("  %-8s %s  (%s: %s)", "finding", shown(f.Target), line(item), line(f.Reason))
	}
}

func (p *printer) verdict(r plan.Report) {
	switch r.Result {
	case plan.Clean:
		p.line("PASS: %s, nothing left", show.Count(r.Totals.Items, "rule"))
	case plan.Findings:
		p.line("FAIL: %s", found(r))
		p.line("next: %s", next(r))
	case plan.Unknown:
		if len(r.Problems()) == 0 { // the audit did not start
			p.line("UNKNOWN: %s", r.Error)
			return
		}
		p.line("UNKNOWN: %s", couldNotRun(r))
	case plan.DryRun:
		left := ""
		if r.Totals.Findings > 0 {
			left = fmt.Sprintf(", and %s for a person to decide", show.Count(r.Totals.Findings, "finding"))
		}
		p.line("PLAN: %s, %s, %s%s; nothing was changed", show.Count(r.Totals.Actions, "action"),
			show.Count(r.Totals.Entries, "file"), show.Size(r.Totals.Bytes), left)
	case plan.OK:
		p.line("DONE: %s", done(r))
	default:
		// The errors of a plan are printed with the plan.
		p.line("FAILED: %s", cmp.Or(r.Error, couldNotRun(r)))
	}
}

// couldNotRun counts the rules or steps that could not run, and repeats the first cause.
func couldNotRun(r plan.Report) string {
	var causes []string
	for _, p := range r.Problems() {
		if p.Error != "" {
			causes = append(causes, p.Error)
		}
	}
	if len(causes) == 0 {
		return ""
	}
	first, more, _ := strings.Cut(causes[0], "\n")
	text := fmt.Sprintf("%s could not run: %s", show.Count(len(causes), console.ItemName(r.Command)), first)
	if more != "" || len(causes) > 1 {
		text += "; the other errors are above"
	}
	return text
}

// next says what to do about findings.
func next(r plan.Report) string {
	var scrubs int
	var rules []string
	for _, p := range r.Problems() {
		scrubs += len(p.Actions)
		if len(p.Findings) > 0 && !slices.Contains(rules, p.Item) {
			rules = append(rules, p.Item)
		}
	}
	var steps []string
	if scrubs > 0 {
		command := "eksnode scrub"
		switch {
		case r.Machine.Disk != "", r.Machine.Snapshot != "":
			command += " on the machine before its capture"
		case r.Machine.Root != "/":
			command += " --root " + shown(r.Machine.Root)
		}
		if !slices.Contains(distros.IDs(), r.Machine.Distro) {
			command += ", with the name of a similar distribution as --distro,"
		}
		steps = append(steps, fmt.Sprintf("%s settles %s", command, show.Count(scrubs, "finding")))
	}
	if len(rules) > 0 {
		steps = append(steps, "repair what a person has to decide, or accept it with --skip-rules "+
			strings.Join(rules, ","))
	}
	return strings.Join(steps, "; ")
}

func found(r plan.Report) string {
	findings := 0
	var rules []string
	for _, p := range r.Problems() {
		findings += len(p.Actions) + len(p.Findings)
		if !slices.Contains(rules, p.Item) {
			rules = append(rules, p.Item)
		}
	}
	text := fmt.Sprintf("%s by %s of %d", show.Count(findings, "finding"), show.Count(len(rules), "rule"),
		r.Totals.Items)
	if len(r.Outcomes) > 0 {
		text += ", for a person to decide; " + done(r)
	}
	return text
}

func done(r plan.Report) string {
	parts := []string{fmt.Sprintf("%d of %s changed", r.Totals.Changed,
		show.Count(r.Totals.Items, console.ItemName(r.Command))), show.Count(r.Totals.Actions, "action")}
	return strings.Join(append(parts, console.Amounts(r.Totals, false)...), ", ")
}

// stopped says what an interrupted run changed. Without outcomes, the totals are those of
// what it found.
func stopped(r plan.Report) string {
	if t := r.Totals; len(r.Outcomes) == 0 || t.Actions == 0 && t.Entries == 0 && t.Fetched == 0 {
		return "nothing was changed"
	}
	return done(r)
}

func size(a plan.Action) string {
	if a.Entries == 0 && a.Bytes == 0 {
		return ""
	}
	if a.Entries > 1 {
		return fmt.Sprintf("  %s, %s", show.Count(a.Entries, "file"), show.Size(a.Bytes))
	}
	return "  " + show.Size(a.Bytes)
}

type printer struct {
	w       io.Writer
	err     error // the first one
	colours bool
}

// newPrinter returns a printer, with colours where w is a terminal that has
// them.
func newPrinter(w io.Writer) *printer { return &printer{w: w, colours: hasColours(w, os.Getenv)} }

// hasColours reports whether w is a terminal that shows colours. NO_COLOR
// (https://no-color.org) and TERM=dumb turn colours off.
func hasColours(w io.Writer, env func(string) string) bool {
	if out, ok := w.(*stdout); ok {
		w = out.Writer
	}
	file, ok := w.(*os.File)
	return ok && env("NO_COLOR") == "" && env("TERM") != "dumb" && runtime.GOOS != "windows" &&
		term.IsTerminal(int(file.Fd()))
}

// colour is a colour of ECMA-48 terminals.
type colour int

// The colours.
const (
	plain  colour = 0
	red    colour = 31
	green  colour = 32
	yellow colour = 33
)

var wordColours = map[string]colour{
	"PASS": green, "DONE": green, "OK": green, "FAIL": red, "FAILED": red, "finding": red, "error": red,
	"UNKNOWN": yellow, "WARN": yellow,
}

// line prints a line. Its first word decides the colour of that word.
func (p *printer) line(format string, args ...any) {
	text := show.Printable(fmt.Sprintf(format, args...))
	word, _, _ := strings.Cut(strings.TrimLeft(text, " "), " ")
	before, after, _ := strings.Cut(text, word)
	p.write(before + p.paint(wordColours[strings.TrimSuffix(word, ":")], word) + after)
}

// colored prints a whole line in one colour.
func (p *printer) colored(c colour, text string) { p.write(p.paint(c, show.Printable(text))) }

func (p *printer) paint(c colour, text string) string {
	if !p.colours || c == plain {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
}

func (p *printer) write(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text+"\n")
	}
}

// shown is a name as it is or, where the name would break the line or is not
// text, in Go's quotes.
func shown(name string) string {
	if show.Line(name) == name {
		return name
	}
	return strconv.Quote(name)
}

// line is a name or a reason that must not break its line.
func line(text string) string { return show.Line(text) }
