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

func (f *reportFile) open(cmd *cobra.Command) (err error) {
	if f.name == "" {
		return nil
	}
	if f.to, err = openDestination(cmd.Context(), f.name); err != nil {
		err = fmt.Errorf("--report: %w", err)
	}
	return err
}

// begin opens the file before the run starts, and replaces an earlier report with one that
// has the result unfinished. A run that only looks creates no file, because the run might
// find that file.
func (f *reportFile) begin(cmd *cobra.Command, looks bool, unfinished func() ([]byte, error)) error {
	if err := f.open(cmd); err != nil || f.to == nil || f.to.stream != nil || looks && !f.to.exists {
		return err
	}
	return f.write(unfinished())
}

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

func (o *output) flags(cmd *cobra.Command) {
	formatFlag(cmd, &o.format, "text", "json", "sarif", "junit")
	bind(cmd, targets{"report": &o.report.name, "verbose": &o.verbose})
}

// begun is the report of a command that has not ended. Root may be empty for this machine.
func begun(command agent.Command, root string) plan.Report {
	return plan.Begun(string(command), version.String(), cmp.Or(root, "/"), time.Now().UTC())
}

// begin marks an earlier report as unfinished, as reportFile.begin does.
func (o *output) begin(cmd *cobra.Command, command agent.Command, root string, looks bool) error {
	return o.report.begin(cmd, looks, func() ([]byte, error) { return reportText(o.report.name, begun(command, root)) })
}

// finish prints the report and returns an error with the exit code of the
// report's result. A failure to write the report does not hide that code.
func (o *output) finish(cmd *cobra.Command, r plan.Report) error {
	var err error
	if to := o.report.to; to != nil {
		err = errors.Join(o.report.write(reportText(o.report.name, r)), r.WriteTailoring(to.path))
	}
	if o.format == "text" && cmd.Context().Err() != nil && (r.Result == plan.Failure || r.Result == plan.Unknown) {
		newPrinter(cmd.OutOrStdout()).line("interrupted: %s", stopped(r))
		return errors.Join(err, resultError(r.Result))
	}
	return errors.Join(o.print(cmd, r), err, resultError(r.Result))
}

func (o *output) print(cmd *cobra.Command, r plan.Report) error {
	j := judged{r.Cases(scrub.About(o.rules, r.Command)), r, func(p *printer) { p.report(r, o.verbose) }}
	return j.encode(cmd, o.format)
}

// tickEvery is how often a waiting person may get a sign of life.
const tickEvery = 5 * time.Second

// watch prints the progress of a run on standard error. The caller calls stop
// when the run has ended.
func (o *output) watch(cmd *cobra.Command, command agent.Command) (sink *console.Console, stop func()) {
	c := console.New(lines{newPrinter(cmd.ErrOrStderr())},
		console.Options{Command: string(command), Verbose: o.verbose, Now: time.Now})
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

// judged is the result of a command with checks. JSON prints the value, and text prints
// for a person.
type judged struct {
	plan.Cases
	value any
	text  func(*printer)
}

func judge(command string, list []plan.Case, value any, text func(*printer)) judged {
	return judged{plan.Cases{Command: command, Result: plan.ResultOf(list), List: list}, value, text}
}

// print prints the cases in a format, and returns an error with the exit code.
func (j judged) print(cmd *cobra.Command, format string) error {
	return cmp.Or(j.encode(cmd, format), resultError(j.Result))
}

func (j judged) encode(cmd *cobra.Command, format string) error {
	switch format {
	case "sarif":
		return j.SARIF(cmd.OutOrStdout())
	case "junit":
		return j.JUnit(cmd.OutOrStdout())
	}
	return answer(cmd, format, j.value, j.text)
}

// choice is the value of a flag that takes one of a few words. The first word is the
// default.
type choice struct {
	to    *string
	known []string
}

func choiceFlag(cmd *cobra.Command, to *string, name string, known ...string) {
	*to = known[0]
	last := len(known) - 1
	cmd.Flags().Var(choice{to, known}, name, ": "+strings.Join(known[:last], ", ")+" or "+known[last])
}

// formatFlag adds --output, with the formats that a command can print.
func formatFlag(cmd *cobra.Command, to *string, known ...string) {
	choiceFlag(cmd, to, "output", known...)
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
		return fmt.Errorf("%q is not known; known: %s", value,
			strings.Join(slices.Sorted(slices.Values(c.known)), ", "))
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
