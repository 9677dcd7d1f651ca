// Package agent is the protocol between the Packer host and the machine. One remote
// command carries it. Its standard input carries the compressed agent, then one
// Request, then heartbeats and Frames with the data that the agent requests. Its
// standard output carries one Event per line and ends with an end marker. Nothing
// else is sent: no shell scripts, no second upload.
package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Frame is a line of JSON that the Packer host sends, in addition to empty lines,
// after the agent's request. The first frame has Supplied. Frames with a Chunk
// follow, each followed by that many bytes, and then one with End. At any time one
// with an Error may come instead.
type Frame struct {
	Supplied *asset.Supplied `json:"supplied,omitempty"`
	Chunk    int             `json:"chunk,omitempty"`
	End      bool            `json:"end,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// ChunkMost is the maximum number of bytes after a Frame: few enough to pass a slow
// line well within SilenceSeconds.
const ChunkMost = 64 << 10

// frameMost is the maximum length of a Frame's line in bytes.
const frameMost = 1 << 20

// inbox is the agent's standard input after the request. It is an asset.Supply.
type inbox struct {
	in    *bufio.Reader
	watch *watched
	want  func(asset.Wanted)

	// asking holds a token from a request until its last Frame, so that the next
	// request waits.
	asking chan struct{}
	answer chan reply
	body   *io.PipeWriter // content of the present answer
}

// reply is the beginning of an answer.
type reply struct {
	supplied *asset.Supplied
	err      error
}

// newInbox reads from in and calls cancel when in sends nothing for the time
// silence.
func newInbox(in io.Reader, silence time.Duration, cancel context.CancelCauseFunc) *inbox {
	w := &watched{in: in, silence: silence, cancel: cancel}
	w.timer = time.AfterFunc(silence, func() {
		cancel(fmt.Errorf("%w (nothing heard for %s)", ErrHungUp, silence))
	})
	return &inbox{in: bufio.NewReaderSize(w, ChunkMost), watch: w, answer: make(chan reply),
		asking: make(chan struct{}, 1)}
}

// watched is a reader that detects silence. Time without a Read does not count.
type watched struct {
	in      io.Reader
	silence time.Duration
	cancel  context.CancelCauseFunc
	timer   *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.silence)
	defer w.timer.Stop()
	return w.in.Read(p)
}

func readLine(in *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > most:
			return nil, fmt.Errorf("a line of more than %d bytes", most)
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// listen handles the Packer host's lines until the connection closes or is silent.
func (b *inbox) listen(ctx context.Context) {
	defer b.watch.timer.Stop()
	for {
		line, err := readLine(b.in, frameMost)
		if err == nil {
			err = b.take(ctx, bytes.TrimSpace(line))
		}
		if err != nil {
			b.watch.cancel(ErrHungUp)
			b.fail(ctx, ErrHungUp)
			return
		}
	}
}

// take handles one line and its chunk. An error ends the session.
func (b *inbox) take(ctx context.Context, line []byte) error {
	if len(line) == 0 {
		return nil
	}
	var f Frame
	if err := json.Unmarshal(line, &f); err != nil {
		return err
	}
	switch {
	case f.Supplied != nil:
		from, to := io.Pipe()
		f.Supplied.ReadCloser, b.body = from, to
		b.reply(ctx, reply{supplied: f.Supplied})
	case f.Error != "":
		b.fail(ctx, errors.New(f.Error))
		b.answered()
	case b.body == nil:
		return errors.New("a chunk of nothing that was supplied")
	case f.End:
		_ = b.body.Close() // a pipe's never fails
		b.body = nil
		b.answered()
	default:
		return b.chunk(f.Chunk)
	}
	return nil
}

// chunk passes bytes on. When the receiver has given up, it still reads the bytes,
// because other lines follow.
func (b *inbox) chunk(size int) error {
	if size < 0 || size > ChunkMost {
		return fmt.Errorf("a chunk of %d bytes", size)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(b.in, data); err != nil {
		return err
	}
	_, _ = b.body.Write(data)
	return nil
}

// fail ends waiting and reading with an error.
func (b *inbox) fail(ctx context.Context, err error) {
	if b.body != nil {
		_ = b.body.CloseWithError(err) // a pipe's never fails
		b.body = nil
		return
	}
	b.reply(ctx, reply{err: err})
}

// answered allows the next request.
func (b *inbox) answered() {
	select {
	case <-b.asking:
	default: // an answer without a request
	}
}

func (b *inbox) reply(ctx context.Context, r reply) {
	select {
	case b.answer <- r:
	case <-ctx.Done():
	}
}

// Supply implements asset.Supply: it sends a request to the Packer host.
func (b *inbox) Supply(ctx context.Context, w asset.Wanted) (*asset.Supplied, error) {
	select {
	case b.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	b.want(w)
	select {
	case r := <-b.answer:
		return r.supplied, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

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
	// Want requests Want from the Packer host, which sends it in Frames. The next request
	// follows when all have arrived.
	Want     Kind = "want"
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
