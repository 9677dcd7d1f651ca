package plan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Status is how an item ended.
type Status string

// The statuses, as reports print them.
const (
	Done      Status = "done"      // something was left to do, and was done
	Unchanged Status = "unchanged" // nothing was left to do
	Failed    Status = "failed"    // could not be done; Error says why
	Skipped   Status = "skipped"   // not reached, because an earlier phase failed
)

// Outcome is what Apply did with one item.
type Outcome struct {
	Item   string `json:"item"`
	Phase  string `json:"phase"`
	Status Status `json:"status"`
	// Actions are those that were done, in order; of a failed item the last
	// one is the one that failed.
	Actions []Action `json:"actions,omitempty"`
	// Findings are what is left for a person.
	Findings []Finding `json:"findings,omitempty"`
	// Error says why the item failed; Err is the same, with its parts.
	Error string `json:"error,omitempty"`
	Err   error  `json:"-"`
	// Milliseconds is the time the item took.
	Milliseconds int64 `json:"ms"`
}

// Sink receives what happens while Apply works, for a person who waits. Any
// method may be called from the goroutine that runs Apply only.
type Sink interface {
	// Begin tells that an item has this many actions to do.
	Begin(item, phase string, actions int)
	// Progress tells how far a long action is, in bytes; total may be 0.
	Progress(item string, a Action, done, total int64)
	// End tells how the item ended.
	End(Outcome)
}

// Apply does what is left to do, item by item: plan, do, plan again. An item
// that still has something left afterwards has failed. Within a phase the
// other items go on after a failure; the following phases are then skipped.
// The error joins all failures. Items that had nothing to do are Unchanged, so
// applying twice does nothing the second time, and a run that was interrupted
// is finished by the next.
func Apply(ctx context.Context, h *host.Host, items []Item, sink Sink) ([]Outcome, error) {
	var outcomes []Outcome
	var errs []error
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

// itemError says which item failed and, unless the error says it already, at
// what it was. Looking at the machine needs no word of its own.
func itemError(item Item, doing string, err error) error {
	if doing == "" || strings.HasPrefix(err.Error(), doing+": ") {
		return fmt.Errorf("%s: %w", item.ID(), err)
	}
	return fmt.Errorf("%s: %s: %w", item.ID(), doing, err)
}
