// Package plan is the unit of work that provisioning and scrubbing share. An
// Item looks at a host and answers one question without touching anything:
// what is left to do? Its Answer has Actions, and Findings that only a person
// can resolve. A dry run prints the answer, applying does the actions, and
// verifying is planning again and getting no actions. There is no second list
// of what "done" means.
package plan

import (
	"context"
	"errors"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Verb says what an action does to its target.
type Verb string

// The verbs, as plans and reports print them.
const (
	Remove  Verb = "remove"  // take the file, link or tree away
	Empty   Verb = "empty"   // keep the file or directory, drop what is in it
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
	// Target is a path, a unit, a package or a command.
	Target string `json:"target"`
	// Reason says why, in words for the person who reads the plan.
	Reason string `json:"reason"`
	// Removal is what the action takes away: in a plan what Count found, in a
	// report what was really taken.
	host.Removal
	// Do performs the action; it must be safe to do twice. Actions that remove
	// have Take in its place.
	Do func(context.Context, Progress) error `json:"-"`
	// Take performs an action that removes and counts what it took.
	Take func(context.Context) (host.Removal, error) `json:"-"`
	// Count looks at what Take would remove. Only plans that are shown count:
	// for a large tree it takes as long as removing.
	Count func() (host.Removal, error) `json:"-"`
	// Hash, where a report shall prove what went, hashes what Take is about
	// to remove; Files is its answer.
	Hash  func() ([]FileHash, error) `json:"-"`
	Files []FileHash                 `json:"files,omitempty"`
}

// FileHash is one removed file in a report.
type FileHash struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Perform does the action and notes what it took.
func (a *Action) Perform(ctx context.Context, progress Progress) (err error) {
	if a.Take == nil {
		return a.Do(ctx, progress)
	}
	if a.Hash != nil {
		if a.Files, err = a.Hash(); err != nil {
			return fmt.Errorf("hashing: %w", err)
		}
	}
	a.Removal, err = a.Take(ctx)
	return err
}

// count fills in what the actions would take away.
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

// Progress lets a long action say how far it is.
type Progress func(done, total int64)

// Item is one step of provisioning or one rule of the scrub.
type Item interface {
	// ID names the item in flags, reports and documentation.
	ID() string
	// Phase groups items that may fail independently; a phase starts only
	// when the one before it went through.
	Phase() string
	// Plan says what is left to do on h. It changes nothing.
	Plan(ctx context.Context, h *host.Host) (Answer, error)
}

// Planned is one item's answer in a report.
type Planned struct {
	Item     string    `json:"item"`
	Phase    string    `json:"phase"`
	Actions  []Action  `json:"actions,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
	// Error says why the item could not look; Err is the item's own error.
	Error string `json:"error,omitempty"`
	Err   error  `json:"-"`
}

// Make asks every item what is left to do. Items with nothing left are not
// listed; an item that could not look is listed with its error. When ctx ends,
// the next item is listed with the reason, and the others are not asked.
func Make(ctx context.Context, h *host.Host, items []Item) []Planned {
	var list []Planned
	for _, item := range items {
		p := Planned{Item: item.ID(), Phase: item.Phase()}
		if err := context.Cause(ctx); err != nil {
			p.Error = fmt.Errorf("stopping before %s: %w", item.ID(), err).Error()
			return append(list, p)
		}
		answer, err := item.Plan(ctx, h)
		if err = errors.Join(err, count(answer.Actions)); err != nil {
			p.Err = itemError(item, "", err)
			p.Error = p.Err.Error()
		}
		p.Actions, p.Findings = answer.Actions, answer.Findings
		if !answer.IsEmpty() || err != nil {
			list = append(list, p)
		}
	}
	return list
}
