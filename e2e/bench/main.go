// Command bench measures what the project claims about speed and size, side by
// side with what people do today, and prints each figure beside its goal.
//
//	go run ./e2e/bench [-run REGEXP] [-rounds N] [-out FILE]
//
// Run it by make bench: most benchmarks boot machines, which needs root, and
// the agent must have been built into the plugin. A missed goal is said and is
// no failure: whoever else uses the machine decides it too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetOutput(io.Discard) // Packer's libraries log every command
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	if ctx.Err() != nil { // whatever broke, broke because of it
		err = fmt.Errorf("interrupted: %w", err)
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// run runs the chosen benchmarks; tables go to out, progress to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	pattern := flags.String("run", "", "run only the benchmarks whose names match this regular expression: "+strings.Join(benchmarkNames(benchmarks()), ", "))
	rounds := flags.Int("rounds", 0, "how often each contestant runs; 0 for what each benchmark has chosen")
	file := flags.String("out", "build/bench.json", "the file for every figure, as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rounds < 0 || flags.NArg() > 0 {
		return fmt.Errorf("reading the arguments: rounds must not be negative, and there is nothing besides flags: %v", args)
	}
	chosen, err := choose(benchmarks(), *pattern)
	if err != nil {
		return err
	}
	b, err := newBench(progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	document, err := b.all(ctx, chosen, *rounds, out)
	if err != nil {
		return err
	}
	if err := document.Write(*file); err != nil {
		return err
	}
	printEnd(out, document, *file)
	return nil
}

// choose picks benchmarks by their names.
func choose(all []benchmark, pattern string) ([]benchmark, error) {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("reading -run: %w", err)
	}
	var chosen []benchmark
	for _, one := range all {
		if matches.MatchString(one.name) {
			chosen = append(chosen, one)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("reading -run: no benchmark's name matches %q; there are %s", pattern, strings.Join(benchmarkNames(all), ", "))
	}
	return chosen, nil
}

func benchmarkNames(all []benchmark) []string {
	var names []string
	for _, one := range all {
		names = append(names, one.name)
	}
	return names
}

// all runs benchmarks one after the other and prints each as it ends.
func (b *bench) all(ctx context.Context, chosen []benchmark, rounds int, out io.Writer) (report.Document, error) {
	d := report.Document{
		Schema: report.Schema, Started: b.now(), Go: runtime.Version(), Arch: runtime.GOARCH, Processors: runtime.NumCPU(),
		RoundTripMS: float64(2*b.link.Delay) / float64(time.Millisecond),
	}
	var err error
	if d.LoadBefore, err = report.ReadLoad(); err != nil {
		return d, err
	}
	for _, one := range chosen {
		fmt.Fprintf(b.progress, "%s: %s\n", one.name, one.about)
		times := one.rounds
		if rounds > 0 && times > 0 {
			times = rounds
		}
		section, err := one.run(ctx, b, times)
		if err != nil {
			return d, fmt.Errorf("%s: %w", one.name, err)
		}
		section.Name, section.About = one.name, one.about
		d.Sections = append(d.Sections, section)
		section.Print(out)
	}
	if d.LoadAfter, err = report.ReadLoad(); err != nil {
		return d, err
	}
	d.Busy, d.Finished = d.LoadAfter.BusySince(d.LoadBefore), b.now()
	return d, nil
}

// printEnd sums up.
func printEnd(out io.Writer, d report.Document, file string) {
	table, missed := report.Summary(d.Sections)
	if len(table.Rows) > 0 {
		fmt.Fprintf(out, "\n%s", table)
	}
	if missed > 0 {
		fmt.Fprintf(out, "MISSED: %d\n", missed)
	}
	fmt.Fprintf(out, "\n%d processors, %.0f %% of them busy with everything that ran; load average %.2f before and %.2f after; took %s; every figure is in %s\n",
		d.Processors, 100*d.Busy, d.LoadBefore.Average, d.LoadAfter.Average, d.Finished.Sub(d.Started).Round(time.Second), file)
	if d.LoadBefore.Average > float64(d.Processors) {
		fmt.Fprintln(out, "The machine was busy before this began: trust the ratios, not the times.")
	}
}
