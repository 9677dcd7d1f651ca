package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/console"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// reportFile is the flag --report.
type reportFile struct {
	name string // empty without a file
	to   *destination
}

func (f *reportFile) flag(cmd *cobra.Command, help string) {
	cmd.Flags().StringVar(&f.name, "report", "", help)
}

func (f *reportFile) open(cmd *cobra.Command) (err error) {
	if f.name == "" {
		return nil
	}
	if f.to, err = openDestination(cmd.Context(), f.name); err != nil {
		err = fmt.Errorf("--report: %w", err)
	}
	return err
}

// write writes the text of a report that could be made.
func (f *reportFile) write(text []byte, err error) error {
	if err == nil {
		err = f.to.write(text)
	}
	if err != nil {
		err = fmt.Errorf("writing the report: %w", err)
	}
	return err
}

// output is where and how a command reports.
type output struct {
	format  string // one of those of print
	report  reportFile
	verbose bool
	// rules describe the items of the report; nil for commands without rules.
	rules []scrub.Rule
}

const reportHelp = "file for the JSON report; a name with .html gets a page for a browser, with .md a summary"

func (o *output) flags(cmd *cobra.Command) {
	formatFlag(cmd, &o.format, "text", "json", "sarif", "junit")
	o.report.flag(cmd, reportHelp)
	cmd.Flags().BoolVar(&o.verbose, "verbose", false, "print every step, rule and action, also where nothing changes")
}

// begin checks the report file before the run starts, and replaces an earlier
// report with one that has the result unfinished. A run that only looks creates
// no file, because the run might find that file.
func (o *output) begin(cmd *cobra.Command, command agent.Command, root string, looks bool) error {
	err := o.report.open(cmd)
	if to := o.report.to; err != nil || to == nil || to.stream != nil || looks && !to.exists {
		return err
	}
	return o.write(plan.Begun(string(command), version.String(), cmp.Or(root, "/"), time.Now().UTC()))
}

func (o *output) write(r plan.Report) error { return o.report.write(reportText(o.report.name, r)) }

// finish prints the report and returns an error with the exit code of the
// report's result. A failure to write the report does not hide that code.
func (o *output) finish(cmd *cobra.Command, r plan.Report) error {
	var err error
	if to := o.report.to; to != nil {
		err = errors.Join(o.write(r), r.WriteTailoring(to.path))
	}
	if o.format == "text" && cmd.Context().Err() != nil && (r.Result == plan.Failure || r.Result == plan.Unknown) {
		newPrinter(cmd.OutOrStdout()).line("interrupted: %s", done(r))
		return errors.Join(err, resultError(r.Result))
	}
	return errors.Join(o.print(cmd.OutOrStdout(), r), err, resultError(r.Result))
}

func (o *output) print(w io.Writer, r plan.Report) error {
	switch o.format {
	case "json":
		return writeJSON(w, r)
	case "sarif":
		return reportSARIF(r, o.rules).print(w)
	case "junit":
		return reportJUnit(r).print(w)
	default:
		return printReport(newPrinter(w), r, o.verbose)
	}
}

// tickEvery is how often a waiting person may get a sign of life.
const tickEvery = 5 * time.Second

// watch prints the progress of a run on standard error. The caller calls stop
// when the run has ended.
func (o *output) watch(cmd *cobra.Command, command agent.Command) (sink *console.Console, stop func()) {
	c := console.New(lines{newPrinter(cmd.ErrOrStderr())}, console.Options{Command: string(command), Verbose: o.verbose, Now: time.Now})
	tick := time.NewTicker(tickEvery)
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-tick.C:
				c.Tick()
			case <-over:
				return
			}
		}
	}()
	return c, func() {
		tick.Stop()
		close(over)
		c.Close()
	}
}

// waiting is a sink that only says which rule a person waits for. The report of an
// audit has the rest.
type waiting struct{ console *console.Console }

func (w waiting) Begin(item, _ string, actions int) { w.console.Begin(item, "", actions) }

func (waiting) Progress(string, plan.Action, int64, int64) {}

func (waiting) End(plan.Outcome) {}

// lines are the console's output on a printer.
type lines struct{ p *printer }

func (l lines) Say(text string) { l.p.line("%s", line(text)) }

func (l lines) Error(text string) { l.p.colored(red, line(text)) }

// verdict is the result of one check, for the formats that other programs read.
type verdict struct {
	rule, name string // of the check: for programs and for people
	// page is the page about the check, relative to docs.
	page string
	// level is empty for a check that passed; otherwise a level of SARIF, or
	// unknown for a check that could not run.
	level string
	// text is what was seen, and remedy what to do about it.
	text, remedy string
	// seen are the lines that show it, and commands those of the remedy.
	seen, commands []string
	file           string // where it was seen; empty where there is no such place
	line           int    // from 1; 0 for the file as a whole
}

// help is the remedy with its commands, or "".
func (v verdict) help() string {
	return strings.Join(append([]string{v.remedy}, v.commands...), "\n")
}

// The levels.
const (
	isError   = "error"
	isWarning = "warning"
	isUnknown = "unknown"
	// isSkipped is a check that did not run for the reason of another verdict.
	isSkipped = "skipped"
)

// resultOf is what verdicts say together. An error hides that another check could not run.
func resultOf(list []verdict) plan.Result {
	has := func(level string) bool {
		return slices.ContainsFunc(list, func(v verdict) bool { return v.level == level })
	}
	switch {
	case has(isError):
		return plan.Findings
	case has(isUnknown):
		return plan.Unknown
	}
	return plan.Clean
}

// judged are the verdicts of a command. JSON prints the value, and text prints for a
// person.
type judged struct {
	command string
	list    []verdict
	value   any
	text    func(*printer)
}

// print prints the verdicts in a format, and returns an error with the exit code.
func (j judged) print(cmd *cobra.Command, format string) error {
	return j.printAs(resultOf(j.list), cmd, format)
}

// printAs is print for a command with a result of its own.
func (j judged) printAs(result plan.Result, cmd *cobra.Command, format string) (err error) {
	w := cmd.OutOrStdout()
	switch code := result.ExitCode(); format {
	case "sarif":
		err = sarifOf(j.list, code).print(w)
	case "junit":
		err = junitOf(j.command, j.list).print(w)
	default:
		err = answer(cmd, format, j.value, j.text)
	}
	return cmp.Or(err, resultError(result))
}

// sarifOf describes all checks, and has a result for each check that did not
// pass.
func sarifOf(list []verdict, code int) *sarifRun {
	run := newSARIF()
	var found []sarifResult
	run.Invocations = []sarifInvocation{{Successful: true, ExitCode: code}}
	for _, v := range list {
		help := v.help()
		help = cmp.Or(help, "See the page about the check.")
		rule := describedSARIF(v.rule, v.name, help, version.Page(v.page))
		run.describe(rule)
		if v.level == "" || v.level == isSkipped {
			continue
		}
		text, level := v.text, v.level
		if v.remedy != "" {
			text += "; " + v.remedy
		}
		text = strings.Join(append([]string{text}, v.seen...), "\n")
		if level == isUnknown {
			text, level = "could not check: "+text, isWarning
			run.Invocations[0].Successful = false
		}
		result := sarifResult{Level: level, Message: sarifText{text}}
		if v.file != "" {
			result.Locations = []sarifLocation{locate(v.file, v.line)}
		}
		found = append(found, run.result(rule.ID, result))
	}
	run.found = slices.Values(found)
	return run
}

// junitOf has a case for each check. JUnit has no warnings: a check that warns
// passes, and system-out has the text.
func junitOf(command string, list []verdict) *junitSuite {
	suite := &junitSuite{Name: "eksnode " + command}
	for _, v := range list {
		c := junitCase{Class: "eksnode." + strings.ReplaceAll(command, " ", "."), Name: v.name}
		switch v.level {
		case isError:
			c.Failure = &junitProblem{Message: v.text, Text: strings.Join(append(slices.Clone(v.seen), v.help(), version.Page(v.page)), "\n")}
		case isUnknown:
			c.Error = &junitProblem{Message: v.text, Text: v.remedy}
		case isSkipped:
			c.Skipped = &junitSkipped{v.text}
		case isWarning:
			c.Out = strings.Join([]string{"WARN: " + v.text, v.remedy}, "\n")
		default:
			c.Out = v.text
		}
		suite.add(c)
	}
	return suite
}

// choice is the value of a flag that takes one of a few words. The first word is the
// default.
type choice struct {
	to    *string
	known []string
}

func choiceFlag(cmd *cobra.Command, to *string, name, help string, known ...string) {
	*to = known[0]
	last := len(known) - 1
	cmd.Flags().Var(choice{to, known}, name, help+": "+strings.Join(known[:last], ", ")+" or "+known[last])
}

// formatFlag adds --output, with the formats that a command can print.
func formatFlag(cmd *cobra.Command, to *string, known ...string) {
	choiceFlag(cmd, to, "output", "output format", known...)
}

func (choice) Type() string { return "string" }

func (c choice) String() string {
	if c.to == nil { // pflag calls String on the zero value
		return ""
	}
	return *c.to
}

// Set implements pflag.Value. It refuses unknown words.
func (c choice) Set(value string) error {
	if !slices.Contains(c.known, value) {
		return fmt.Errorf("%q is not known; known: %s", value, strings.Join(slices.Sorted(slices.Values(c.known)), ", "))
	}
	*c.to = value
	return nil
}

// writeJSON prints a value as JSON that is safe on a terminal.
func writeJSON(w io.Writer, v any) error {
	text, err := plan.EncodeJSON(v)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
