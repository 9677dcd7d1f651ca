package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/console"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// output is where and how a command reports.
type output struct {
	format  string // one of those of print
	report  string // file for the JSON report, or empty
	verbose bool
	to      *destination
	// rules describe the items of the report; nil for commands without rules.
	rules []scrub.Rule
}

func (o *output) flags(cmd *cobra.Command) {
	formatFlag(cmd, &o.format, "text", "json", "sarif", "junit")
	cmd.Flags().StringVar(&o.report, "report", "", "file for the JSON report")
	cmd.Flags().BoolVar(&o.verbose, "verbose", false, "print every step, rule and action, also where nothing changes")
}

// begin checks the report file before the run starts, and replaces an earlier
// report with one that has the result unfinished. A run that only looks creates
// no file, because the run might find that file.
func (o *output) begin(cmd *cobra.Command, command agent.Command, root string, looks bool) (err error) {
	if o.report == "" {
		return nil
	}
	if o.to, err = openDestination(cmd.Context(), o.report); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	if o.to.stream != nil || looks && !o.to.exists {
		return nil
	}
	if err := o.write(plan.Begun(string(command), version.String(), cmp.Or(root, "/"), time.Now().UTC())); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

// write writes the report file.
func (o *output) write(r plan.Report) error {
	var text bytes.Buffer
	if err := writeJSON(&text, r); err != nil {
		return err
	}
	return o.to.write(text.Bytes())
}

// finish prints the report and returns an error with the exit code of the
// report's result. A failure to write the report does not hide that code.
func (o *output) finish(cmd *cobra.Command, r plan.Report) error {
	var err error
	if o.to != nil {
		if err = o.write(r); err != nil {
			err = fmt.Errorf("writing the report: %w", err)
		}
	}
	if o.format == "text" && cmd.Context().Err() != nil && (r.Result == plan.Failure || r.Result == plan.Unknown) {
		newPrinter(cmd.OutOrStdout()).line("interrupted: %s", done(r))
		return errors.Join(err, resultError(r))
	}
	return errors.Join(o.print(cmd.OutOrStdout(), r), err, resultError(r))
}

// print prints the report in the format of the flag.
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

// Begin implements plan.Sink.
func (w waiting) Begin(item, _ string, actions int) { w.console.Begin(item, "", actions) }

// Progress implements plan.Sink.
func (waiting) Progress(string, plan.Action, int64, int64) {}

// End implements plan.Sink.
func (waiting) End(plan.Outcome) {}

// lines are the console's output on a printer.
type lines struct{ p *printer }

// Say implements console.Output.
func (l lines) Say(text string) { l.p.line("%s", line(text)) }

// Error implements console.Output.
func (l lines) Error(text string) { l.p.colored(red, line(text)) }
