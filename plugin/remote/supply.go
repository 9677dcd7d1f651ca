package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/console"
)

// supplier sends the files that the agent wants.
type supplier struct {
	supply  asset.Supply // nil where nothing can be wanted
	feed    *feed
	console *console.Console
}

// answer gets a file and feeds it to the agent. Heartbeats go on until the file is
// there. answer calls sent when the last bytes leave: from then on the agent may
// want another file.
func (s supplier) answer(ctx context.Context, w asset.Wanted, sent func()) {
	if s.supply == nil {
		s.feed.send(newFrames(nil, errors.New("this provisioner supplies nothing"), sent))
		return
	}
	s.console.Print("  the Packer host gets %s", w)
	got, err := s.supply.Supply(ctx, w)
	f := newFrames(got, err, sent)
	s.feed.send(f)
	select {
	case <-f.done:
	case <-s.feed.hung:
	}
	if got != nil {
		_ = got.Close() // nothing was written
	}
}

// frames are an answer in the form of the agent's standard input.
type frames struct {
	ready bytes.Buffer // what is to be sent next
	from  io.Reader    // nil when nothing follows
	chunk []byte
	over  sync.Once
	done  chan struct{} // closed when all was sent
	sent  func()        // called before the last bytes leave; nil afterwards
}

func newFrames(got *asset.Supplied, err error, sent func()) *frames {
	f := &frames{done: make(chan struct{}), sent: sent}
	switch {
	case err != nil:
		f.put(failed(err))
	default:
		f.from, f.chunk = got, make([]byte, agent.ChunkMost)
		f.put(agent.Frame{Supplied: got})
	}
	return f
}

// put queues a line; a Frame can always be written as JSON.
func (f *frames) put(frame agent.Frame) {
	line, err := json.Marshal(frame)
	if err == nil {
		f.ready.Write(append(line, '\n'))
	}
}

func (f *frames) Read(p []byte) (int, error) {
	if f.ready.Len() == 0 {
		if f.from == nil {
			f.over.Do(func() { close(f.done) })
			return 0, io.EOF
		}
		f.next()
	}
	n, err := f.ready.Read(p)
	if f.from == nil && f.ready.Len() == 0 && f.sent != nil {
		f.sent()
		f.sent = nil
	}
	return n, err
}

// failed is the frame of an error; a mirror may have made that very long.
func failed(err error) agent.Frame { return agent.Frame{Error: clipped(err.Error(), errorMost)} }

// next queues the next chunk, or the end.
func (f *frames) next() {
	n, err := io.ReadFull(f.from, f.chunk)
	if n > 0 {
		f.put(agent.Frame{Chunk: n})
		f.ready.Write(f.chunk[:n])
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		f.from = nil
		f.put(agent.Frame{End: true})
	case errors.Is(err, os.ErrClosed): // hung up meanwhile
		f.from = nil
	case err != nil:
		f.from = nil
		f.put(failed(err))
	}
}

// feed is the standard input of the agent's session: the agent, the request, then
// the files that the agent wants, and an empty line at intervals as a heartbeat.
// begin starts the feed: what is sent before, a start-up file of the shell could
// read. hangUp ends the feed: a communicator waits for the standard input of its
// command as well as for the command.
type feed struct {
	begun chan struct{}
	open  sync.Once
	taken atomic.Int64 // bytes of agent, request and answers
	head  io.Reader    // agent and request, or an answer
	next  chan io.Reader
	beat  *time.Ticker
	close sync.Once
	hung  chan struct{}
}

func newFeed(head io.Reader, every time.Duration) *feed {
	return &feed{head: head, beat: time.NewTicker(every), next: make(chan io.Reader), begun: make(chan struct{}),
		hung: make(chan struct{})}
}

// begin starts the standard input. It may be called again.
func (f *feed) begin() { f.open.Do(func() { close(f.begun) }) }

// Read implements io.Reader. It is called by one goroutine at a time.
func (f *feed) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	select {
	case <-f.hung:
		return 0, io.EOF
	case <-f.begun:
	}
	for {
		select {
		case <-f.hung:
			return 0, io.EOF
		default:
		}
		if f.head != nil {
			n, err := f.head.Read(p)
			if err == io.EOF {
				f.head, err = nil, nil
			}
			if n > 0 || err != nil {
				f.taken.Add(int64(n))
				return n, err
			}
		}
		select {
		case <-f.hung:
			return 0, io.EOF
		case f.head = <-f.next:
		case <-f.beat.C:
			p[0] = '\n'
			return 1, nil
		}
	}
}

// send puts an answer into the standard input, after everything sent before. It
// does nothing when the input has ended.
func (f *feed) send(answer io.Reader) {
	select {
	case f.next <- answer:
	case <-f.hung:
	}
}

// hangUp ends the standard input. It may be called again.
func (f *feed) hangUp() {
	f.close.Do(func() {
		f.beat.Stop()
		close(f.hung)
	})
}
