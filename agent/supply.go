package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/artifact"
)

// Frame is what the packer host puts into the agent's standard input, besides
// empty lines, once the agent has wanted something: a line of JSON. First comes
// one with Supplied, then those with a Chunk, each followed by that many bytes,
// then one with End; or at any time one with an Error instead.
type Frame struct {
	Supplied *artifact.Supplied `json:"supplied,omitempty"`
	Chunk    int                `json:"chunk,omitempty"`
	End      bool               `json:"end,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// ChunkMost is how many bytes follow a Frame at most: few enough to come
// through a slow line well within SilenceSeconds.
const ChunkMost = 64 << 10

// inbox is the agent's standard input after the request. It is an
// artifact.Supply.
type inbox struct {
	in    *bufio.Reader
	watch *watched
	want  func(artifact.Wanted)

	asking sync.Mutex // one thing at a time is wanted
	answer chan reply
	body   *io.PipeWriter // of what is being supplied
}

// reply is the beginning of an answer.
type reply struct {
	supplied *artifact.Supplied
	err      error
}

// newInbox reads from in, on whose silence cancel is called once listen runs.
func newInbox(in io.Reader, cancel context.CancelCauseFunc) *inbox {
	w := &watched{in: in, cancel: cancel}
	return &inbox{in: bufio.NewReaderSize(w, ChunkMost), watch: w, answer: make(chan reply)}
}

// watched is a reader whose silence is noticed; the time in which nobody reads
// does not count.
type watched struct {
	in     io.Reader
	cancel context.CancelCauseFunc
	timer  *time.Timer // nil while nobody minds
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	if w.timer != nil {
		w.timer.Reset(SilenceSeconds * time.Second)
		defer w.timer.Stop()
	}
	return w.in.Read(p)
}

// listen takes what the packer host sends, until it hangs up or falls silent.
func (b *inbox) listen(ctx context.Context) {
	b.watch.timer = time.AfterFunc(SilenceSeconds*time.Second, func() {
		b.watch.cancel(fmt.Errorf("%w (nothing heard for %d s)", ErrHungUp, SilenceSeconds))
	})
	defer b.watch.timer.Stop()
	for {
		line, err := b.in.ReadBytes('\n')
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

// take takes one line and what belongs to it. Its error ends the session.
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
	case b.body == nil:
		return errors.New("a chunk of nothing that was supplied")
	case f.End:
		_ = b.body.Close() // a pipe's never fails
		b.body = nil
	default:
		return b.chunk(f.Chunk)
	}
	return nil
}

// chunk hands bytes on. Whoever wanted them may have given up: then they are
// read all the same, because others follow.
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

// fail tells whoever waits or reads that nothing more comes.
func (b *inbox) fail(ctx context.Context, err error) {
	if b.body != nil {
		_ = b.body.CloseWithError(err) // a pipe's never fails
		b.body = nil
		return
	}
	b.reply(ctx, reply{err: err})
}

func (b *inbox) reply(ctx context.Context, r reply) {
	select {
	case b.answer <- r:
	case <-ctx.Done():
	}
}

// Supply implements artifact.Supply: it asks the packer host.
func (b *inbox) Supply(ctx context.Context, w artifact.Wanted) (*artifact.Supplied, error) {
	b.asking.Lock()
	defer b.asking.Unlock()
	b.want(w)
	select {
	case r := <-b.answer:
		return r.supplied, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
