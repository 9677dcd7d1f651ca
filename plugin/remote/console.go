package remote

import (
	"fmt"
	"strings"
	"sync"
	"time"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/agent"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// How often a long item says something: often enough that a person at a
// terminal does not take it for dead, seldom enough for a log that is kept.
const (
	progressEvery = 10 * time.Second
	silenceMost   = 20 * time.Second
)

// targetsMost is how many downloads of one item are counted, and how many of
// its lines are shown.
const targetsMost = 500

// console turns the agent's events into lines for the person who waits: one
// per item, and for a long item one now and then.
type console struct {
	ui  packersdk.Ui
	now func() time.Time

	mu      sync.Mutex
	phase   string
	item    string // the one that is running
	since   time.Time
	spoke   time.Time
	fetched map[string]int64 // bytes by target of the running item
	total   int64            // bytes fetched by all items
}

func newConsole(ui packersdk.Ui, now func() time.Time) *console {
	return &console{ui: ui, now: now}
}

// say prints a line that belongs to no item.
func (c *console) say(format string, values ...any) { c.ui.Say(fmt.Sprintf(format, values...)) }

// begin notes that an item is running.
func (c *console) begin(e agent.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enter(e.Phase, e.Item)
	now := c.now()
	c.item, c.since, c.spoke, c.fetched = e.Item, now, now, map[string]int64{}
}

// enter prints the phase when it is another than before. One that has the name
// of its only item is not worth a line.
func (c *console) enter(phase, item string) {
	if phase == "" || phase == c.phase {
		return
	}
	c.phase = phase
	if phase != item {
		c.ui.Say("Phase: " + phase)
	}
}

// progress notes how far an action is, and prints it when it takes long.
func (c *console) progress(e agent.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	target := e.Item
	if e.Action != nil {
		target = fmt.Sprintf("%s %s", e.Action.Verb, e.Action.Target)
	}
	if _, known := c.fetched[target]; c.fetched != nil && (known || len(c.fetched) < targetsMost) {
		c.fetched[target] = e.Done
	}
	now := c.now()
	if now.Sub(c.spoke) < progressEvery {
		return
	}
	c.spoke = now
	if e.Total > 0 {
		c.ui.Say(fmt.Sprintf("  %s: %s: %s of %s (%d %%)", e.Item, target, size(e.Done), size(e.Total), 100*e.Done/e.Total))
		return
	}
	c.ui.Say(fmt.Sprintf("  %s: %s: %s", e.Item, target, size(e.Done)))
}

// tick prints a sign of life for an item that has been silent for long.
func (c *console) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.item == "" || now.Sub(c.spoke) < silenceMost {
		return
	}
	c.spoke = now
	c.ui.Say(fmt.Sprintf("  %s: still working after %s", c.item, length(now.Sub(c.since))))
}

// end prints how an item ended.
func (c *console) end(o plan.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enter(o.Phase, o.Item)
	var fetched int64
	for _, n := range c.fetched {
		fetched += n
	}
	c.total += fetched
	c.item, c.fetched = "", nil
	line := fmt.Sprintf("  %-28s %-9s %s", o.Item, o.Status, details(o, fetched))
	if o.Status == plan.Failed {
		c.ui.Error(line + ": " + strings.TrimPrefix(o.Error, o.Item+": "))
	} else {
		c.ui.Say(line)
	}
	c.findings(o.Item, o.Findings)
}

// more says how many lines of an item are not shown.
func (c *console) more(item string, lines int) {
	if lines > targetsMost {
		c.ui.Say(fmt.Sprintf("  %s: and %d more; the report has all", item, lines-targetsMost))
	}
}

// findings prints what only a person can resolve.
func (c *console) findings(item string, list []plan.Finding) {
	for _, f := range list[:min(len(list), targetsMost)] {
		c.ui.Error(fmt.Sprintf("  %s: for you to decide: %s (%s)", item, f.Target, f.Reason))
	}
	c.more(item, len(list))
}

// details are an item's numbers: only those that say something.
func details(o plan.Outcome, fetched int64) string {
	s := length(time.Duration(o.Milliseconds) * time.Millisecond)
	if n := len(o.Actions); n > 0 {
		s = count(n, "action") + ", " + s
	}
	var gone plan.Action
	for _, a := range o.Actions {
		gone.Add(a.Removal)
	}
	if gone.Entries > 0 || gone.Bytes > 0 {
		s += fmt.Sprintf(", took away %d files and folders, %s", gone.Entries, size(gone.Bytes))
	}
	if fetched > 0 {
		s += ", fetched " + size(fetched)
	}
	return s
}

// finish prints the end: the plan of a dry run, and one line that sums up.
func (c *console) finish(r *plan.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.item = ""
	c.planned(r.Plan, "would")
	if r.Audit != nil {
		c.planned(r.Audit.Plan, "left to")
	}
	if s, ok := c.ui.(*screen); ok {
		s.reopen()
	}
	line := fmt.Sprintf("%s %s: %s, %d changed, %s", r.Command, r.Result,
		count(r.Totals.Items, "item"), r.Totals.Changed, count(r.Totals.Actions, "action"))
	if r.Totals.Bytes > 0 || r.Totals.Entries > 0 {
		gone := "gone"
		if len(r.Plan) > 0 {
			gone = "to go"
		}
		line += fmt.Sprintf(", %d files and folders %s (%s)", r.Totals.Entries, gone, size(r.Totals.Bytes))
	}
	if c.total > 0 {
		line += ", fetched " + size(c.total)
	}
	c.ui.Say(line + ", " + length(r.Finished.Sub(r.Started)))
	c.concluded(r)
}

// planned prints what is left to do.
func (c *console) planned(list []plan.Planned, will string) {
	for _, p := range list {
		c.enter(p.Phase, p.Item)
		for _, a := range p.Actions[:min(len(p.Actions), targetsMost)] {
			c.ui.Say(fmt.Sprintf("  %s: %s %s %s (%s)", p.Item, will, a.Verb, a.Target, a.Reason))
		}
		c.more(p.Item, len(p.Actions))
		c.findings(p.Item, p.Findings)
		if p.Error != "" {
			c.ui.Error("  " + p.Error) // begins with the item
		}
	}
}

// concluded prints what became of the audit that ends a scrub.
func (c *console) concluded(r *plan.Report) {
	switch {
	case r.Audit != nil && r.Audit.Result == plan.Clean:
		c.ui.Say(r.Audit.String())
	case r.Audit != nil:
		c.ui.Error(r.Audit.String())
	case r.Command == string(agent.Scrub) && r.Result != plan.Failure:
		c.ui.Say(plan.NoAudit)
	}
}
