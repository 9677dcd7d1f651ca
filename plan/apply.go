package plan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Status is the result of one item in Apply.
type Status string

// The statuses, as reports print them.
const (
	Done      Status = "done"      // all actions succeeded
	Unchanged Status = "unchanged" // nothing was left to do
	Failed    Status = "failed"    // an action or the planning failed; Error says why
	Skipped   Status = "skipped"   // not started, because an earlier phase failed
)

// Outcome is the result of one item in Apply.
type Outcome struct {
	Item   string `json:"item"`
	Phase  string `json:"phase"`
	Status Status `json:"status"`
	// Actions are the actions that were performed, in order. The last action of
	// a failed item may be the action that failed.
	Actions []Action `json:"actions,omitempty"`
	// Findings are left for a person.
	Findings []Finding `json:"findings,omitempty"`
	// Error says why the item failed.
	Error string `json:"error,omitempty"`
	// Err is the item's own error.
	Err error `json:"-"`
	// Milliseconds is the time the item took.
	Milliseconds int64 `json:"ms"`
}

// Sink receives the progress of Apply and Look. Only the goroutine that runs them
// calls its methods.
type Sink interface {
	// Begin is called when an item is planned and starts its actions.
	Begin(item, phase string, actions int)
	// Progress is called while a long action works; done and total are bytes,
	// and total is 0 when unknown.
	Progress(item string, a Action, done, total int64)
	// End is called when an item has ended.
	End(Outcome)
}

// silent is the Sink of a caller without one.
type silent struct{}

func (silent) Begin(string, string, int)             {}
func (silent) Progress(string, Action, int64, int64) {}
func (silent) End(Outcome)                           {}

func orSilent(sink Sink) Sink {
	if sink == nil {
		return silent{}
	}
	return sink
}

// Apply plans each item, performs its actions, and plans the item again. An item
// that then still has actions left has failed. After a failure the other items
// of the phase still run, and the following phases are skipped. The error joins
// all failures. An item with nothing to do is Unchanged. So a second run changes
// nothing, and the next run finishes an interrupted run. sink may be nil.
func Apply(ctx context.Context, h *host.Host, items []Item, sink Sink) ([]Outcome, error) {
	var outcomes []Outcome
	var errs []error
	sink = orSilent(sink)
	failedPhase := ""
	for _, item := range items {
		out := Outcome{Item: item.ID(), Phase: item.Phase()}
		if err := context.Cause(ctx); err != nil && failedPhase != "-" {
			failedPhase = "-" // every phase from here on is skipped
			errs = append(errs, fmt.Errorf("stopping before %s: %w", item.ID(), err))
		}
		if failedPhase != "" && failedPhase != item.Phase() {
			out.Status = Skipped
			outcomes = append(outcomes, out)
			continue
		}
		start := time.Now()
		err := applyItem(ctx, h, item, sink, &out)
		out.Milliseconds = time.Since(start).Milliseconds()
		if err != nil {
			out.Status, out.Error, out.Err = Failed, err.Error(), err
			failedPhase = item.Phase()
			errs = append(errs, err)
		}
		sink.End(out)
		outcomes = append(outcomes, out)
	}
	return outcomes, errors.Join(errs...)
}

func applyItem(ctx context.Context, h *host.Host, item Item, sink Sink, out *Outcome) error {
	answer, err := item.Plan(ctx, h)
	if err != nil {
		return itemError(item, "", err)
	}
	sink.Begin(item.ID(), item.Phase(), len(answer.Actions))
	if len(answer.Actions) == 0 {
		out.Status, out.Findings = Unchanged, answer.Findings
		return nil
	}
	for _, a := range answer.Actions {
		if err := context.Cause(ctx); err != nil {
			return itemError(item, "stopping", err)
		}
		progress := func(done, total int64) { sink.Progress(item.ID(), a, done, total) }
		err := a.Perform(ctx, progress)
		a.Failed = err != nil
		out.Actions = append(out.Actions, a)
		if err != nil {
			return itemError(item, string(a.Verb)+" "+a.Target, err)
		}
	}
	left, err := item.Plan(ctx, h)
	if err != nil {
		return itemError(item, "verifying", err)
	}
	out.Status, out.Findings = Done, left.Findings
	if len(left.Actions) > 0 {
		first := left.Actions[0]
		return itemError(item, "verifying", fmt.Errorf("still to do afterwards: %s %s (%s)", first.Verb, first.Target, first.Reason))
	}
	return nil
}

// itemError adds the item to an error and, unless the error begins with it, what
// the item was doing. An empty doing means that the item was planning.
func itemError(item Item, doing string, err error) error {
	if doing == "" || strings.HasPrefix(err.Error(), doing+": ") {
		return fmt.Errorf("%s: %w", item.ID(), err)
	}
	return fmt.Errorf("%s: %s: %w", item.ID(), doing, err)
}
