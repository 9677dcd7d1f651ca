// Package agent is the protocol between the Packer host and the machine. One remote
// command carries it. Its standard input carries the compressed agent, then one
// Request, then heartbeats and Frames with the data that the agent requests. Its
// standard output carries one Event per line and ends with an end marker. Nothing
// else is sent: no shell scripts, no second upload.
package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// FolderPrefix begins the name of the agent's folder. 16 hexadecimal digits follow.
const FolderPrefix = "eksnode-"

// Command is a task for the agent.
type Command string

// The commands.
const (
	Provision Command = "provision"
	Scrub     Command = "scrub"
	Audit     Command = "audit"
)

// Request is the line of JSON that the agent reads. Unknown fields are errors.
type Request struct {
	// Version of the plugin. The agent refuses a version other than its own.
	Version string  `json:"version"`
	Command Command `json:"command"`
	// DryRun plans and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Folder is the agent's temporary folder, which must contain only the agent.
	// The agent removes it before it does anything else.
	Folder string `json:"folder,omitempty"`
	// Provision is the spec of a provision, and otherwise nil.
	Provision *provisioner.Spec `json:"provision,omitempty"`
	// SupplyAssets says that the Packer host sends the assets, instead of the
	// machine fetching them. It always sends images.
	SupplyAssets bool `json:"supply_assets,omitempty"`
	// Scrub is the spec of a scrub or an audit, and otherwise nil.
	Scrub *scrub.Spec `json:"scrub,omitempty"`
}

// check refuses a request without the spec of its command.
func (r Request) check() error {
	switch {
	case r.Command == Provision && r.Provision == nil:
		return errors.New("a provision needs its spec in the field provision")
	case (r.Command == Scrub || r.Command == Audit) && r.Scrub == nil:
		return fmt.Errorf("%s needs its spec in the field scrub", r.Command)
	case r.Command != Provision && r.Command != Scrub && r.Command != Audit:
		return fmt.Errorf("the command %q is not known; known: %s, %s, %s", r.Command, Provision, Scrub, Audit)
	}
	return nil
}

// Run runs a request on a host. Its report contains the result.
type Run func(ctx context.Context, h *host.Host, req Request, sink plan.Sink, supply asset.Supply) plan.Report

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	Hello    Kind = "hello"    // the agent runs; Message is its version
	Begin    Kind = "begin"    // an item has Actions to do
	Progress Kind = "progress" // a long action has done Done of Total bytes
	End      Kind = "end"      // an item ended with Outcome
	Alive    Kind = "alive"    // the agent works and has no other event
	Warning  Kind = "warning"  // Message is for the person who waits
	Want     Kind = "want"     // requests Want from the Packer host, which sends it in Frames; the next request follows when all have arrived
	Finished Kind = "finished" // the Report; always the last line
)

// Event is one line of the agent's standard output.
type Event struct {
	Kind    Kind          `json:"event"`
	Item    string        `json:"item,omitempty"`
	Phase   string        `json:"phase,omitempty"`
	Actions int           `json:"actions,omitempty"`
	Action  *plan.Action  `json:"action,omitempty"`
	Done    int64         `json:"done,omitempty"`
	Total   int64         `json:"total,omitempty"`
	Outcome *plan.Outcome `json:"outcome,omitempty"`
	Message string        `json:"message,omitempty"`
	// Want is the agent's request.
	Want *asset.Wanted `json:"want,omitempty"`
	// Report comes with Finished, the end marker. A stream without it is
	// incomplete.
	Report *plan.Report `json:"report,omitempty"`
}

// LineMost is the maximum length of an event in bytes, with its line end. A larger
// report leaves out entries of its lists and contains their number.
const LineMost = 32 << 20

// HeartbeatSeconds is how often the Packer host sends an empty line and the agent
// an Alive event. SilenceSeconds is how long either continues without the other's.
// The agent ends at once when its standard input closes, so that an interrupted
// build no longer changes the machine. A machine that disappears is noticed long
// before TCP gives up.
const (
	HeartbeatSeconds = 5
	SilenceSeconds   = 60
)
