// Package console prints what a run does, for a person who waits. Both the
// Packer plugin and the command eksnode print through this package. It prints
// changes and what needs attention, then one line for each phase, and at the end
// a table of what the image has or of what a scrub removed. The figures come
// from package plan's report.
package console

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// How often a long item prints a line: often enough that a person does not take
// the run for dead, seldom enough for a log.
const (
	progressEvery = 10 * time.Second
	silenceMost   = 20 * time.Second
)

// targetsMost is how many lines of one item are printed.
const targetsMost = 500

// Output prints lines. Packer's Ui is an Output.
type Output interface {
	Say(line string)
	Error(line string)
}

// Options say how much a Console prints.
type Options struct {
	// Command is provision, scrub or audit.
	Command string
	// Verbose prints every item, every action, and the phases as headings.
	Verbose bool
	// Details prints findings and the errors of failed items when they occur.
	// Without Details, the caller prints them at the end.
	Details bool
	// Now is the clock.
	Now func() time.Time
}

// Console is a plan.Sink that prints. Its methods may be called concurrently.
type Console struct {
	out Output
	o   Options

	mu       sync.Mutex
	phase    string
	outcomes []plan.Outcome // of the running phase
	idle     []string       // steps that had nothing to do
	item     string         // the running item
	working  bool
	since    time.Time // of the running item
	spoke    time.Time
}

// New returns a Console that prints to out.
func New(out Output, o Options) *Console { return &Console{out: out, o: o, spoke: o.Now()} }

func (c *Console) say(format string, values ...any) {
	c.spoke = c.o.Now()
	c.out.Say(fmt.Sprintf(format, values...))
}

func (c *Console) fail(format string, values ...any) {
	c.spoke = c.o.Now()
	c.out.Error(fmt.Sprintf(format, values...))
}

// Print prints a line that belongs to no item.
func (c *Console) Print(format string, values ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.say(format, values...)
}

// Warn prints a warning.
func (c *Console) Warn(message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail("  warning: %s", message)
}

// Begin implements plan.Sink.
func (c *Console) Begin(item, phase string, _ int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enter(phase, item)
	c.item, c.working, c.since = item, true, c.o.Now()
}

// enter closes the phase before, and in verbose output prints a heading. A phase
// with the name of its only item has no heading.
func (c *Console) enter(phase, item string) {
	if phase == "" || phase == c.phase {
		return
	}
	c.leave()
	c.phase = phase
	if c.o.Verbose && phase != item {
		c.say("Phase: %s", phase)
	}
}

// leave prints the line of the phase that has ended. A step of a provision is a
// phase of its own and has printed its line.
func (c *Console) leave() {
	for _, p := range plan.PhasesOf(c.outcomes) {
		if len(c.outcomes) > 1 || c.outcomes[0].Item != p.Phase {
			c.say("%s", PhaseLine(c.o.Command, p))
		}
	}
	c.phase, c.outcomes = "", nil
}

// Progress implements plan.Sink.
func (c *Console) Progress(item string, a plan.Action, done, total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.o.Now().Sub(c.spoke) < progressEvery {
		return
	}
	target := strings.TrimSpace(string(a.Verb) + " " + a.Target)
	if total > 0 {
		c.say("  %s: %s: %s of %s (%d %%)", item, target, show.Size(done), show.Size(total), 100*done/total)
		return
	}
	c.say("  %s: %s: %s", item, target, show.Size(done))
}

// Tick prints a sign of life when nothing has been printed for long. The caller
// calls Tick every few seconds.
func (c *Console) Tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.working || c.o.Now().Sub(c.spoke) < silenceMost {
		return
	}
	if c.item == "" {
		c.say("  still working")
		return
	}
	c.say("  %s: still working after %s", c.item, show.Length(c.o.Now().Sub(c.since)))
}

// End implements plan.Sink.
func (c *Console) End(o plan.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enter(o.Phase, o.Item)
	c.item = ""
	c.outcomes = append(c.outcomes, o)
	c.outcome(o)
	if c.o.Details {
		c.findings(o.Item, o.Findings)
	}
}

// outcome prints the line of an item that changed or failed, and in verbose
// output of every item.
func (c *Console) outcome(o plan.Outcome) {
	indent := "  "
	if o.Item == o.Phase && !c.o.Verbose {
		indent = ""
	}
	switch {
	case o.Status == plan.Failed && c.o.Details:
		c.fail("%s%s: failed after %s: %s", indent, o.Item, spent(o), strings.TrimPrefix(o.Error, o.Item+": "))
	case o.Status == plan.Failed:
		c.fail("%s%s: failed after %s", indent, o.Item, spent(o))
	case c.o.Verbose:
		c.say("  %-28s %-9s %s", o.Item, o.Status, details(o))
		for _, a := range o.Actions[:min(len(o.Actions), targetsMost)] {
			c.say("    %s %s (%s)", a.Verb, a.Target, a.Reason)
		}
		c.more(o.Item, len(o.Actions))
	case o.Status == plan.Done:
		c.say("%s%s: %s", indent, o.Item, details(o))
	case o.Item == o.Phase:
		c.idle = append(c.idle, o.Item)
	}
}

// more says how many lines of an item are not printed.
func (c *Console) more(item string, lines int) {
	if lines > targetsMost {
		c.say("  %s: and %d more; the report has all", item, lines-targetsMost)
	}
}

func (c *Console) findings(item string, list []plan.Finding) {
	for _, f := range list[:min(len(list), targetsMost)] {
		c.fail("  %s: for you to decide: %s (%s)", item, f.Target, f.Reason)
	}
	c.more(item, len(list))
}

// Finish prints the end of a run: warnings, a dry run's plan, what the closing audit found,
// the closing table, and the result.
func (c *Console) Finish(r *plan.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	for _, text := range r.Warnings {
		c.fail("  warning: %s", text)
	}
	c.planned(r.Plan, "would")
	c.planned(r.FoundAfter(), "left to")
	for _, check := range r.Checks() {
		for _, n := range check.Notes[:min(len(check.Notes), targetsMost)] {
			c.say("  %s: note: %s (%s)", check.Item, n.Target, n.Reason)
		}
		c.more(check.Item, len(check.Notes))
	}
	if s, ok := c.out.(interface{ Reopen() }); ok {
		s.Reopen()
	}
	for _, line := range Table(r) {
		c.say("%s", line)
	}
	c.say("%s", Verdict(r))
	switch line := AuditLine(r); {
	case line == "":
	case r.Audit != nil && r.Audit.Result != plan.Clean:
		c.fail("%s", line)
	default:
		c.say("%s", line)
	}
}

// Close prints the line of the last phase, where the caller prints the rest.
func (c *Console) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
}

func (c *Console) end() {
	c.item, c.working = "", false
	c.leave()
	if len(c.idle) > 0 {
		c.say("nothing to do: %s", strings.Join(c.idle, ", "))
	}
	c.idle = nil
}

// planned prints what is left to do.
func (c *Console) planned(list []plan.Planned, will string) {
	phase := ""
	for _, p := range list {
		if p.Phase != phase && p.Phase != p.Item {
			c.say("Phase: %s", p.Phase)
		}
		phase = p.Phase
		for _, a := range p.Actions[:min(len(p.Actions), targetsMost)] {
			c.say("  %s: %s %s %s (%s)", p.Item, will, a.Verb, a.Target, a.Reason)
		}
		c.more(p.Item, len(p.Actions))
		c.findings(p.Item, p.Findings)
		if p.Error != "" {
			c.fail("  %s", p.Error) // begins with the item
		}
	}
}

// details are an item's figures that are not zero.
func details(o plan.Outcome) string {
	var parts []string
	if n := len(o.Actions); n > 0 {
		parts = append(parts, show.Count(n, "action"))
	}
	packages := 0
	for _, a := range o.Actions {
		packages += len(a.Packages)
	}
	if packages > 0 {
		parts = append(parts, show.Count(packages, "package")+" installed")
	}
	one := plan.PhasesOf([]plan.Outcome{o})[0]
	return strings.Join(slices.Concat(parts, Amounts(one.Totals, false), []string{spent(o)}), ", ")
}

func spent(o plan.Outcome) string {
	return show.Length(time.Duration(o.Milliseconds) * time.Millisecond)
}
