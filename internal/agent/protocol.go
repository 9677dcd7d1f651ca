// Package agent is the conversation between the packer host and the machine:
// one remote command whose standard input carries first the compressed agent,
// then one Request, then a heartbeat, and what the agent asked for in Frames;
// whose standard output carries one Event per line and closes with an end
// marker. Nothing else travels: no shell scripts, no second upload.
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

// Command is what the agent is asked to do.
type Command string

// The commands.
const (
	Provision Command = "provision"
	Scrub     Command = "scrub"
	Audit     Command = "audit"
)

// Request is the one line of JSON the agent reads. Unknown fields are errors.
type Request struct {
	// Version of the plugin; the agent refuses another than its own.
	Version string  `json:"version"`
	Command Command `json:"command"`
	// DryRun plans and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Folder is the agent's own temporary folder; it removes itself from there
	// before it does anything else. It must contain nothing but the agent.
	Folder string `json:"folder,omitempty"`
	// Provision is the spec of a provision; nil otherwise.
	Provision *provisioner.Spec `json:"provision,omitempty"`
	// SupplyAssets says that assets are wanted of the packer host, instead of
	// being fetched by the machine; images always are.
	SupplyAssets bool `json:"supply_assets,omitempty"`
	// Scrub is the spec of a scrub or an audit; nil otherwise.
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

// Run does what a request asks for on a host. Its report says how it ended.
type Run func(ctx context.Context, h *host.Host, req Request, sink plan.Sink, supply asset.Supply) plan.Report

// Kind says what an event tells.
type Kind string

// The kinds of events.
const (
	Hello    Kind = "hello"    // the agent runs: Message names its version
	Begin    Kind = "begin"    // an item has Actions to do
	Progress Kind = "progress" // a long action is at Done of Total bytes
	End      Kind = "end"      // an item ended: Outcome
	Alive    Kind = "alive"    // the agent is at work and has nothing to tell
	Warning  Kind = "warning"  // Message is for the person who waits
	Want     Kind = "want"     // the packer host shall send what Want names, in Frames; nothing else is wanted until all have come
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
	// Want is what the agent asks for.
	Want *asset.Wanted `json:"want,omitempty"`
	// Report comes with Finished, the end marker: a stream without it was cut.
	Report *plan.Report `json:"report,omitempty"`
}

// LineMost is how many bytes one event may have, its line's end included. A
// report that is larger leaves entries of its lists out and says how many.
const LineMost = 32 << 20

// HeartbeatSeconds is how often the packer host sends an empty line and the
// agent an Alive event; SilenceSeconds is how long either goes on without the
// other's. The agent ends at once when its standard input closes, so that
// nothing keeps changing a machine whose build was interrupted; and a machine
// that vanishes is noticed long before TCP gives up.
const (
	HeartbeatSeconds = 5
	SilenceSeconds   = 60
)
