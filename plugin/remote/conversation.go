package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/console"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// What a machine may send in one session. An agent stays far below: it says at
// most three things a second, and needs hours for a large machine.
const (
	noiseMost   = 20        // lines that are not the agent's and are shown
	eventsMost  = 1_000_000 // events
	wantsMost   = 1_000     // requests to the Packer host for downloads
	valuesMost  = 2_000_000 // values in one event: each takes memory here, even when it is short
	outcomeMost = 128 << 20 // bytes of outcomes, which are kept until the report comes
)

// conversation reads the standard output of the agent's session: perhaps what
// a banner or a start-up file prints, the begin mark, events from Hello to Finished,
// and the mark that says that the session is over. Other programs may print whole
// lines at any time.
type conversation struct {
	console *console.Console
	name    string // of the session, in its marks
	version string // the agent's must be the plugin's
	private func(string) string
	begin   func() // starts the standard input
	skip    func() // leaves the agent out of the standard input
	hangUp  func() // ends the standard input
	want    func(asset.Wanted)

	mu sync.Mutex
	heard
	last    time.Time // of the agent's last word; zero before its first
	noise   int
	printed text // by the machine before the begin mark

	events, wants int
	outcomeBytes  int
	wanted        *asset.Wanted // what has not come yet
}

// heard is what the agent said until now.
type heard struct {
	begun    bool   // the machine's shell runs the command
	before   string // what the machine printed before that
	hello    bool
	item     string // the last item that began
	report   *plan.Report
	outcomes []plan.Outcome
	err      error // the first thing that was wrong with what the agent said
	allShown bool  // the lines that are not events
}

// soFar is a copy of what was heard.
func (c *conversation) soFar() heard {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.heard
	h.before, h.outcomes, h.allShown = c.printed.String(), slices.Clone(c.outcomes), c.noise <= noiseMost
	return h
}

// line takes the next line of standard output.
func (c *conversation) line(line []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, over := bytes.CutSuffix(line, []byte(overMark+c.name)); over {
		defer c.hangUp()
		line = before // of a program whose last line had no end
	}
	if before, begins := bytes.CutSuffix(line, []byte(beginMark+c.name)); begins {
		defer c.begin()
		defer func() { c.begun = true }()
		line = before
	}
	if before, kept := bytes.CutSuffix(line, []byte(keptMark+c.name)); kept && !c.begun {
		c.skip()
		line = before
	}
	if c.err != nil || len(line) == 0 {
		return
	}
	if !c.begun || c.report != nil || !bytes.HasPrefix(line, []byte(`{"event":`)) {
		c.show(line)
		return
	}
	event, err := parseEvent(line)
	switch {
	case !c.hello && (err != nil || event.Kind != agent.Hello):
		c.show(line)
	case err != nil:
		c.fail(fmt.Errorf("reading the agent's events: %w", err))
	default:
		c.count(event, len(line))
		if c.err == nil {
			c.event(event)
		}
	}
}

// count fails an agent that says more than any has to say.
func (c *conversation) count(e agent.Event, bytes int) {
	c.events++
	if e.Kind == agent.End {
		c.outcomeBytes += bytes
	}
	switch {
	case c.events > eventsMost:
		c.fail(fmt.Errorf("reading the agent's events: there are more than %d", eventsMost))
	case c.outcomeBytes > outcomeMost:
		c.fail(fmt.Errorf("reading the agent's events: the outcomes have more than %d bytes", outcomeMost))
	}
}

// ask has the Packer host bring what the agent wants: one thing after the
// other, since each may cost a download.
func (c *conversation) ask(w asset.Wanted) {
	switch c.wants++; {
	case c.wanted != nil:
		c.fail(fmt.Errorf("reading the agent's events: %s is wanted before %s has been sent", w, c.wanted))
	case c.wants > wantsMost:
		c.fail(fmt.Errorf("reading the agent's events: more than %d things are wanted", wantsMost))
	default:
		c.wanted = &w
		c.want(w)
	}
}

// answered notes that all of what was wanted is on its way.
func (c *conversation) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = nil
}

// aside takes a line of standard error, where the agent says nothing.
func (c *conversation) aside(line []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.show(line)
}

// show passes a line on that is not the agent's.
func (c *conversation) show(line []byte) {
	shown := c.private(string(line))
	if !c.begun {
		_, _ = c.printed.Write([]byte(shown + "\n")) // never fails
	}
	if c.noise++; c.noise <= noiseMost {
		c.console.Print("  (the machine) %s", shown)
	}
}

func (c *conversation) fail(err error) {
	c.err = err
	c.hangUp()
}

// silence is how long the agent has said nothing since it first spoke. Before,
// the agent itself is still on its way; see Session.arrival.
func (c *conversation) silence() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.IsZero() {
		return 0
	}
	return time.Since(c.last)
}

func (c *conversation) event(e agent.Event) {
	c.last = time.Now()
	switch e.Kind {
	case agent.Hello:
		c.hello = true
		if !slices.Contains(strings.Fields(e.Message), c.version) {
			c.fail(fmt.Errorf("the agent is %q but the plugin is version %s; build both together with `make build`",
				e.Message, c.version))
		}
	case agent.Begin:
		c.item = e.Item
		c.console.Begin(e.Item, e.Phase, e.Actions)
	case agent.Want:
		c.ask(*e.Want)
	case agent.Progress:
		c.progress(e)
	case agent.Warning:
		c.console.Warn(e.Message)
	case agent.End:
		c.outcomes = append(c.outcomes, *e.Outcome)
		c.console.End(*e.Outcome)
	case agent.Finished:
		c.report = e.Report
		c.console.Finish(e.Report)
		c.hangUp()
	}
}

// progress passes on how far an action is.
func (c *conversation) progress(e agent.Event) {
	action := plan.Action{Target: e.Item}
	if e.Action != nil {
		action = *e.Action
	}
	c.console.Progress(e.Item, action, e.Done, e.Total)
}

// parseEvent reads one event and makes sure that it carries what its kind
// promises.
func parseEvent(line []byte) (agent.Event, error) {
	var e agent.Event
	if bytes.Count(line, []byte{','}) > valuesMost {
		return e, fmt.Errorf("an event with more than %d values", valuesMost)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return e, fmt.Errorf("this line is not an event: %s", show.Quote(string(line), 200))
	}
	var err error
	switch e.Kind {
	case agent.Hello, agent.Begin, agent.Progress, agent.Alive, agent.Warning:
	case agent.Want:
		if e.Want == nil {
			err = errors.New("a want of nothing")
		}
	case agent.End:
		if e.Outcome == nil {
			err = errors.New("an end without an outcome")
		}
	case agent.Finished:
		if e.Report == nil {
			err = errors.New("a finish without a report")
		}
	default:
		err = fmt.Errorf("an event of the unknown kind %q", e.Kind)
	}
	return e, err
}
