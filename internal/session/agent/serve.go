package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rules"
)

// ErrHungUp is the cause when a run stops because the Packer host is gone.
var ErrHungUp = errors.New("the Packer host closed the connection; the agent stopped so that it no longer changes " +
	"this machine")

// Serve reads one Request from in, runs it on h and writes Events to out. It
// returns the report, whose exit code becomes the exit code of the process. It
// stops when in closes or sends nothing for SilenceSeconds.
func Serve(ctx context.Context, h *host.Host, in io.Reader, out io.Writer, tool string, run Run) plan.Report {
	return serve(ctx, h, in, out, tool, run, SilenceSeconds*time.Second)
}

func serve(ctx context.Context, h *host.Host, in io.Reader, out io.Writer, tool string, run Run,
	silence time.Duration) plan.Report {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &writer{out: out, failed: cancel}
	w.send(Event{Kind: Hello, Message: tool})

	box := newInbox(in, silence, cancel)
	box.want = func(wanted asset.Wanted) { w.send(Event{Kind: Want, Want: &wanted}) }
	req, err := box.request(ctx, tool)
	if err == nil {
		err = leaveFolder(req.Folder)
	}
	if err == nil && req.Folder != "" && !req.DryRun {
		err = rules.RemoveAgents(h, filepath.Dir(req.Folder))
	}
	if err != nil {
		r := plan.Report{Schema: plan.Schema, Command: string(req.Command), Tool: tool, Result: plan.Failure,
			Error: err.Error()}
		w.send(Event{Kind: Finished, Report: &r})
		return r
	}
	go box.listen(ctx)
	go w.liveUntil(ctx)
	r := run(ctx, h, req, w, box)
	if req.Command == Provision && !req.DryRun && r.Result == plan.OK {
		if err := keep(h); err != nil {
			w.send(Event{Kind: Warning, Message: err.Error()})
		}
	}
	w.send(Event{Kind: Finished, Report: &r})
	return r
}

// requestMost is the maximum length of a request in bytes. A request contains a
// lock file, certificates and custom rules.
const requestMost = 64 << 20

// request reads the first line of the agent's input. When the Packer host stops
// sending before the line's end, request returns and leaves the reader behind,
// which ends with the process.
func (b *inbox) request(ctx context.Context, tool string) (Request, error) {
	req, err := Await(ctx, func() (Request, error) { return readRequest(b.in, tool) })
	if err != nil {
		err = fmt.Errorf("reading the request: %w", err)
	}
	return req, err
}

// Await makes a call that may never end, and waits as long as the context. The call goes on.
func Await[T any](ctx context.Context, call func() (T, error)) (value T, err error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := call()
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}

func readRequest(in *bufio.Reader, tool string) (req Request, err error) {
	line, err := readLine(in, requestMost)
	if err != nil {
		return req, err
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&req); err != nil {
		return req, err
	}
	if req.Version != tool {
		return req, fmt.Errorf("the plugin has version %q, but the agent has version %q; build both together with "+
			"make build",
			req.Version, tool)
	}
	return req, req.check()
}

// leaveFolder removes the uploaded agent before anything else happens, so that it
// is never left in the image. A running program does not need its file.
func leaveFolder(folder string) error {
	if folder == "" {
		return nil
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the uploaded agent: %w", err)
	}
	if filepath.Dir(exe) != filepath.Clean(folder) {
		return fmt.Errorf("removing the uploaded agent: the agent runs from %s, not from the folder %s of the request",
			filepath.Dir(exe), folder)
	}
	if err := errors.Join(os.Remove(exe), os.Remove(folder)); err != nil {
		return fmt.Errorf("removing the uploaded agent: %w", err)
	}
	return nil
}

// keep leaves a copy of the agent for the next provisioner of the build, if /run is in
// memory: then no image has the copy. The agent of the next provisioner removes it.
func keep(h *host.Host) error {
	mounts, err := h.Files.MountsBelow("/")
	inMemory := slices.ContainsFunc(mounts, func(m host.Mount) bool { return m.Path == "/run" && m.Type == "tmpfs" })
	if err == nil && !inMemory {
		return nil
	}
	if err == nil {
		err = h.Files.Mkdir(filepath.Dir(rules.KeptAgent), 0o700)
	}
	if err == nil {
		err = h.Files.Replace(rules.KeptAgent, host.Attributes{Mode: 0o600}, copyAgent)
	}
	if err != nil {
		_, left := h.Files.RemoveTree(filepath.Dir(rules.KeptAgent))
		return fmt.Errorf("keeping the agent for the next provisioner: %w", errors.Join(err, left))
	}
	return nil
}

// copyAgent writes the running program, whose file is removed already.
func copyAgent(to io.Writer) error {
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer program.Close()
	_, err = io.Copy(to, program)
	return err
}

// writer is a plan.Sink that writes events.
type writer struct {
	mu     sync.Mutex
	out    io.Writer
	failed context.CancelCauseFunc
	last   time.Time // time of the last progress event
	over   bool      // nothing follows the end marker
}

func (w *writer) send(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.over = e.Kind == Finished
	line, err := encode(e)
	if err == nil {
		// A program in the background may have left a line open.
		_, err = w.out.Write(slices.Concat([]byte("\n"), line, []byte("\n")))
	}
	if err != nil {
		w.failed(fmt.Errorf("%w (%w)", ErrHungUp, err))
	}
}

// encode writes an event as JSON that fits a line.
func encode(e Event) ([]byte, error) {
	line, err := json.Marshal(e)
	for most := 1 << 17; err == nil && len(line) >= LineMost && most > 0; most /= 2 {
		if e.Report != nil {
			r := e.Report.Bounded(most)
			e.Report = &r
		}
		if e.Outcome != nil {
			o := e.Outcome.Bounded(most)
			e.Outcome = &o
		}
		line, err = json.Marshal(e)
	}
	return line, err
}

// liveUntil sends Alive events until ctx ends.
func (w *writer) liveUntil(ctx context.Context) {
	beat := time.NewTicker(HeartbeatSeconds * time.Second)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			w.send(Event{Kind: Alive})
		case <-ctx.Done():
			return
		}
	}
}

func (w *writer) Begin(item, phase string, actions int) {
	w.send(Event{Kind: Begin, Item: item, Phase: phase, Actions: actions})
}

// Progress implements plan.Sink and sends at most two events a second.
func (w *writer) Progress(item string, a plan.Action, done, total int64) {
	if time.Since(w.last) < 500*time.Millisecond && done < total {
		return
	}
	w.last = time.Now()
	w.send(Event{Kind: Progress, Item: item, Action: &a, Done: done, Total: total})
}

func (w *writer) End(o plan.Outcome) {
	w.send(Event{Kind: End, Item: o.Item, Phase: o.Phase, Outcome: &o})
}
