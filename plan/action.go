// Package plan is the unit of work that provisions and scrubs share. An Item
// looks at a host, changes nothing, and returns an Answer: the Actions that are
// left to do, and Findings, which only a person can resolve. A dry run prints
// the answer. Apply performs the actions, plans again, and expects no actions.
// No second list says what "done" means.
package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// Verb says what an action does to its target.
type Verb string

// The verbs, as plans and reports print them.
const (
	Remove  Verb = "remove"  // remove the file, link or tree
	Empty   Verb = "empty"   // keep the file or directory, remove its content
	Write   Verb = "write"   // make the file hold exactly this
	Restore Verb = "restore" // put a recorded or built-in template back
	Link    Verb = "link"    // make a symbolic link
	Mkdir   Verb = "mkdir"   // make a directory
	Fetch   Verb = "fetch"   // download, verify, move into place
	Install Verb = "install" // install a package
	Enable  Verb = "enable"  // let a unit start at boot
	Disable Verb = "disable" // stop a unit from starting at boot
	Stop    Verb = "stop"    // stop a running unit
	Unmount Verb = "unmount" // detach a mount
	Run     Verb = "run"     // run a command
	Wipe    Verb = "wipe"    // discard or overwrite free space
)

// Action is one thing left to do on a host.
type Action struct {
	Verb Verb `json:"verb"`
	// Target is a path, a unit, packages, an image or a command.
	Target string `json:"target"`
	// Reason says why the action is needed.
	Reason string `json:"reason"`
	// Removal counts the files that the action removes: in a plan the result of
	// Count, in a report the files that were removed.
	host.Removal
	// Fetched is the size of the download that the action read, in bytes, also
	// when the action failed. Only actions that fetch have it.
	Fetched int64 `json:"fetched,omitempty"`
	// Packages are the names of the packages that the action installs.
	Packages []string `json:"packages,omitempty"`
	// Do performs the action; doing it twice must be safe. Actions that remove
	// have Take instead.
	Do func(context.Context, Progress) error `json:"-"`
	// Take removes files and counts them.
	Take func(context.Context) (host.Removal, error) `json:"-"`
	// Count counts the files that Take would remove. Only Make calls it: for a
	// large tree, counting takes as long as removing.
	Count func() (host.Removal, error) `json:"-"`
	// Hash hashes the files that Take is about to remove; nil hashes nothing.
	Hash func() ([]FileHash, error) `json:"-"`
	// Failed says that the action failed. Removal has what was removed before.
	Failed bool `json:"failed,omitempty"`
	// Files are the hashes of the removed files, where the options demand them. An
	// action that failed after a part has those of all files that it began with.
	Files []FileHash `json:"files,omitempty"`
}

// FileHash is one removed file in a report.
type FileHash struct {
	Path string `json:"path"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// SHA256 is in hexadecimal.
	SHA256 string `json:"sha256"`
}

// Perform performs the action and records the files that it removed and the
// bytes that it fetched.
func (a *Action) Perform(ctx context.Context, progress Progress) (err error) {
	if a.Take == nil {
		return a.Do(ctx, func(done, total int64) {
			if a.Verb == Fetch {
				a.Fetched = done
			}
			progress(done, total)
		})
	}
	if a.Hash != nil {
		if a.Files, err = a.Hash(); err != nil {
			return fmt.Errorf("hashing: %w", err)
		}
	}
	if a.Removal, err = a.Take(ctx); err != nil && a.Removal == (host.Removal{}) {
		a.Files = nil
	}
	return err
}

// count fills in the files that the actions would remove.
func count(actions []Action) error {
	var errs []error
	for i := range actions {
		if actions[i].Count == nil {
			continue
		}
		var err error
		if actions[i].Removal, err = actions[i].Count(); err != nil {
			errs = append(errs, fmt.Errorf("measuring %s: %w", actions[i].Target, err))
		}
	}
	return errors.Join(errs...)
}

// Progress reports how many bytes of a long action are done; total is 0 when
// unknown.
type Progress func(done, total int64)

// Item is one step of a provision or one rule of a scrub.
type Item interface {
	// ID names the item in flags, reports and documentation.
	ID() string
	// Phase groups items that may fail independently; a phase starts only
	// when the phase before it succeeded.
	Phase() string
	// Plan returns what is left to do on h. It changes nothing.
	Plan(ctx context.Context, h *host.Host) (Answer, error)
}

// Planned is one item's answer in a report.
type Planned struct {
	Item     string    `json:"item"`
	Phase    string    `json:"phase"`
	Actions  []Action  `json:"actions,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
	// Error says why the item could not run.
	Error string `json:"error,omitempty"`
}

// Make plans every item. Items with nothing left to do are not listed; an item
// that could not run is listed with its error. When ctx ends, the next item is
// listed with the reason, and the items after that are not planned.
func Make(ctx context.Context, h *host.Host, items []Item) []Planned {
	list, _ := Look(ctx, h, items, nil)
	return list
}

// Look is Make that also returns the outcome of every item, in the same order.
// sink receives the beginning and the end of each item; nil for none.
func Look(ctx context.Context, h *host.Host, items []Item, sink Sink) ([]Planned, []Check) {
	var list []Planned
	var checks []Check
	sink = orSilent(sink)
	for n, item := range items {
		p := Planned{Item: item.ID(), Phase: item.Phase()}
		if err := context.Cause(ctx); err != nil {
			p.Error = fmt.Errorf("stopping before %s: %w", item.ID(), err).Error()
			for _, rest := range items[n:] {
				unchecked := Check{Item: rest.ID(), Phase: rest.Phase(), Outcome: Unchecked, Reason: p.Error}
				checks = append(checks, unchecked)
			}
			return append(list, p), checks
		}
		sink.Begin(p.Item, p.Phase, 0)
		answer, err := item.Plan(ctx, h)
		if err = errors.Join(err, count(answer.Actions)); err != nil {
			p.Error = surface.Named(ctx, itemError(item, "", err)).Error()
		}
		p.Actions, p.Findings = answer.Actions, answer.Findings
		check := p.check(answer.NotApplicable)
		check.Notes = answer.Notes
		checks = append(checks, check)
		sink.End(p.outcome())
		if !answer.IsEmpty() || err != nil {
			list = append(list, p)
		}
	}
	return list, checks
}

// Pending reports whether Look has planned actions of an item.
func Pending(list []Planned, item Item) bool {
	return slices.ContainsFunc(list, func(p Planned) bool { return p.Item == item.ID() && len(p.Actions) > 0 })
}

// outcome is the answer for a Sink: an item that only looked has changed nothing.
func (p Planned) outcome() Outcome {
	o := Outcome{Item: p.Item, Phase: p.Phase, Status: Unchanged, Findings: p.Findings, Error: p.Error}
	if p.Error != "" {
		o.Status = Failed
	}
	return o
}

// Finding is something that only a person can resolve.
type Finding struct {
	// Target is the subject of the finding, such as a path, a unit or a package.
	Target string `json:"target"`
	// Reason says what is wrong and what to do, for the person who resolves it.
	Reason string `json:"reason"`
}

// Answer is the result of planning an Item: the actions that are left to do, and
// the findings, which stay until a person resolves them.
type Answer struct {
	Actions  []Action
	Findings []Finding
	// Notes are for a person who wants to know. They change no result.
	Notes []Finding
	// NotApplicable says why the item is not for this host; empty for an item
	// that is.
	NotApplicable string
}

// Acts is an answer with these actions.
func Acts(actions ...Action) Answer { return Answer{Actions: actions} }

// Act adds actions.
func (a *Answer) Act(actions ...Action) { a.Actions = append(a.Actions, actions...) }

// Find adds a finding.
func (a *Answer) Find(target, reason string) {
	a.Findings = append(a.Findings, Finding{target, reason})
}

// Add adds another answer's actions and findings.
func (a *Answer) Add(more Answer) {
	a.Actions, a.Findings = append(a.Actions, more.Actions...), append(a.Findings, more.Findings...)
	a.Notes = append(a.Notes, more.Notes...)
	a.NotApplicable = cmp.Or(a.NotApplicable, more.NotApplicable)
}

// IsEmpty reports whether nothing is left, neither to do nor for a person.
func (a Answer) IsEmpty() bool { return len(a.Actions) == 0 && len(a.Findings) == 0 }

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
			err = surface.Named(ctx, err)
			out.Status, out.Error = Failed, err.Error()
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
	out.Findings = answer.Findings
	if len(answer.Actions) == 0 {
		out.Status = Unchanged
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
		left := fmt.Errorf("still to do afterwards: %s %s (%s)", first.Verb, first.Target, first.Reason)
		return itemError(item, "verifying", left)
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
