package remote

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

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
	return &feed{head: head, beat: time.NewTicker(every), next: make(chan io.Reader), begun: make(chan struct{}), hung: make(chan struct{})}
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
