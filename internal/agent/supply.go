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

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
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
	return &inbox{in: bufio.NewReaderSize(w, ChunkMost), watch: w, answer: make(chan reply), asking: make(chan struct{}, 1)}
}

// watched is a reader that detects silence. Time without a Read does not count.
type watched struct {
	in      io.Reader
	silence time.Duration
	cancel  context.CancelCauseFunc
	timer   *time.Timer
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.silence)
	defer w.timer.Stop()
	return w.in.Read(p)
}

// readLine reads a line of at most that many bytes.
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
