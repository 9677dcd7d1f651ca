package asset

import (
	"context"
	"sync"
)

// ahead is the download that is wanted next: asked for as soon as the one
// before it has sent its last request, while that is still being unpacked and
// flushed to disk.
type ahead struct {
	mu       sync.Mutex
	expected *Download
	coming   *coming
	// sent says that the one that is coming has sent its own last request
	// already.
	sent bool
}

// coming is a download that has been begun.
type coming struct {
	url  string
	done chan struct{} // closed when the rest is set
	body content
	sum  string
	err  error
}

// Expect says which download is wanted after the one that is begun next. It is
// fetched ahead as far as its buffers reach; one that is not wanted after all
// ends with the context of the one before.
func (f *Fetcher) Expect(d Download) {
	f.ahead.mu.Lock()
	defer f.ahead.mu.Unlock()
	f.ahead.expected = &d
}

// lastSent is called when a download has sent its last request.
func (f *Fetcher) lastSent(ctx context.Context) {
	f.ahead.mu.Lock()
	defer f.ahead.mu.Unlock()
	if f.ahead.coming != nil {
		f.ahead.sent = true
		return
	}
	d := f.ahead.expected
	if d == nil {
		return
	}
	c := &coming{url: d.URL, done: make(chan struct{})}
	f.ahead.expected, f.ahead.coming = nil, c
	go func() {
		defer close(c.done)
		c.body, c.sum, c.err = f.beginNow(ctx, *d)
	}()
}

// begun is a download that was asked for ahead, whatever came of it; nil when it
// was not.
func (f *Fetcher) begun(ctx context.Context, d Download) *coming {
	f.ahead.mu.Lock()
	c := f.ahead.coming
	f.ahead.mu.Unlock()
	if c == nil {
		return nil
	}
	<-c.done
	f.ahead.mu.Lock()
	sent := f.ahead.sent
	f.ahead.coming, f.ahead.sent = nil, false
	f.ahead.mu.Unlock()
	if c.url == d.URL {
		if sent {
			f.lastSent(ctx)
		}
		return c
	}
	if c.err == nil {
		_ = c.body.Close() // nothing was written
	}
	return nil
}
