package asset

import (
	"context"
	"sync"
)

// ahead is the next download. Its request starts as soon as the previous download
// has sent its last request, while that one is still being unpacked and flushed to
// disk.
type ahead struct {
	mu       sync.Mutex
	expected *Download
	coming   *coming
	// sent says that the download in coming has also sent its last request.
	sent bool
}

// coming is a download that has started.
type coming struct {
	url  string
	done chan struct{} // closed when the other fields are set
	body content
	sum  string
	err  error
}

// Expect announces the download after the one that begins next. It is fetched ahead
// as far as its buffers reach. A download that is never begun ends with the context
// of the previous one.
func (f *Fetcher) Expect(d Download) {
	f.ahead.mu.Lock()
	defer f.ahead.mu.Unlock()
	f.ahead.expected = &d
}

// lastSent records that a download has sent its last request.
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

// begun is the download d when it was fetched ahead, successful or not; otherwise
// nil.
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
		_ = c.body.Close() // opened for reading only
	}
	return nil
}
