package asset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

// content is a file that is being fetched.
type content struct {
	io.ReadCloser
	// size is the file's length in bytes, or -1 when it is unknown.
	size int64
}

// open fetches a file from a byte on. When the server supports ranges, it fetches
// several pieces at once. The caller closes the content.
func (f *Fetcher) open(ctx context.Context, address string, from int64) (content, error) {
	if isFile(address) {
		return openFile(address, from)
	}
	ctx, cancel := context.WithCancel(ctx)
	first, err := f.stream(ctx, address, from, from+pieceSize)
	if err != nil {
		cancel()
		return content{}, err
	}
	p := &pieces{fetcher: f, cancel: cancel, first: first, ahead: make(chan chan piece, connections-2)}
	if first.ranges && first.until < first.total {
		go p.fetch(ctx, address, first.until, first.total)
	} else {
		close(p.ahead)
	}
	return content{p, first.total}, nil
}

// openText fetches a small file with one request.
func (f *Fetcher) openText(ctx context.Context, address string) (content, error) {
	if isFile(address) {
		return openFile(address, 0)
	}
	s, err := f.stream(ctx, address, 0, -1)
	return content{s, -1}, err
}

// piece is a part of a file.
type piece struct {
	data   []byte
	buffer *[]byte
	err    error
}

// pieces is a file's content in order. The next pieces are fetched ahead over other
// connections.
type pieces struct {
	fetcher *Fetcher
	cancel  context.CancelFunc
	first   *stream
	begun   bool // the first piece has been read
	// ahead are the next pieces: each element is a channel for one piece. Its
	// capacity bounds how many are fetched or wait.
	ahead chan chan piece
	now   piece // the unread rest of the current piece
	err   error
	// cut is why the last pieces were never requested. It is set before ahead
	// is closed: without it, an interrupted file looks like a short whole file.
	cut error
}

// fetch starts the pieces between two places in order.
func (p *pieces) fetch(ctx context.Context, address string, from, until int64) {
	defer close(p.ahead)
	for ; from < until; from += pieceSize {
		one := make(chan piece, 1)
		select {
		case p.ahead <- one:
			go p.one(ctx, one, address, from, min(from+pieceSize, until), until)
		case <-ctx.Done():
			p.cut = context.Cause(ctx)
			return
		}
	}
}

func (p *pieces) one(ctx context.Context, to chan<- piece, address string, from, until, total int64) {
	buffer, _ := p.fetcher.pieces.Get().(*[]byte)
	got := piece{buffer: buffer, data: (*buffer)[:until-from]}
	s, err := p.fetcher.stream(ctx, address, from, until)
	if err == nil {
		defer s.Close()
		_, err = io.ReadFull(s, got.data)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || err == nil && s.total != total {
		err = errChanged
	}
	got.err = err
	to <- got
}

func (p *pieces) Read(b []byte) (int, error) {
	if !p.begun {
		n, err := p.first.Read(b)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		p.begun = true
		p.first.drop()
	}
	for len(p.now.data) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		p.release()
		next, more := <-p.ahead
		if !more {
			p.err = cmp.Or(p.cut, io.EOF)
			continue
		}
		p.now = <-next
		if p.err = p.now.err; p.err != nil {
			p.now.data = nil
		}
	}
	n := copy(b, p.now.data)
	p.now.data = p.now.data[n:]
	return n, nil
}

// release returns a piece's memory to the pool.
func (p *pieces) release() {
	if p.now.buffer != nil {
		p.fetcher.pieces.Put(p.now.buffer)
		p.now = piece{}
	}
}

// Close ends the fetching.
func (p *pieces) Close() error {
	p.cancel()
	p.release()
	p.first.drop()
	for next := range p.ahead { // each channel gets its piece, or an error
		p.now = <-next
		p.release()
	}
	return nil
}

// stream reads a file, or a range of it, over as many requests as needed: after a
// broken connection, a new request fetches the rest. The checksum proves that the
// pieces belong together.
type stream struct {
	fetcher *Fetcher
	ctx     context.Context
	address string

	body   io.ReadCloser
	cancel context.CancelFunc
	timer  *time.Timer
	tries  int
	failed error // why nothing more can be read
	done   int64 // offset of the next byte
	until  int64 // offset after the last requested byte; -1 means the end of the file
	total  int64 // bytes of the whole file; -1 when the server does not send the length
	ranges bool  // the server supports ranges
}

// stream opens a file from one offset to another; -1 means the end. The caller
// closes the stream.
func (f *Fetcher) stream(ctx context.Context, address string, from, until int64) (*stream, error) {
	s := &stream{fetcher: f, ctx: ctx, address: address, done: from, until: until, total: -1}
	for {
		err := s.request()
		if err == nil {
			return s, nil
		}
		if err := s.again(err); err != nil {
			return nil, err
		}
	}
}

// request sends one request for the missing bytes.
func (s *stream) request() error {
	s.tries++
	ctx, cancel := context.WithCancelCause(s.ctx)
	timer := time.AfterFunc(s.fetcher.stall, func() { cancel(errStalled) })
	stop := func() { timer.Stop(); cancel(nil) }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address, nil)
	if err != nil {
		stop()
		return err
	}
	req.Header.Set("User-Agent", "eksnode/"+version.String())
	switch {
	case s.until >= 0:
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", s.done, s.until-1))
	case s.done > 0:
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", s.done))
	}
	resp, err := s.fetcher.client.Do(req)
	if err != nil {
		why := context.Cause(ctx) // errStalled, perhaps
		stop()
		if errors.Is(err, io.EOF) {
			return errDropped
		}
		return errors.Join(why, bare(err))
	}
	s.body, s.cancel, s.timer = resp.Body, stop, timer
	if err := s.accept(resp); err != nil {
		s.drop()
		if errors.Is(err, errNoRange) {
			s.until, s.tries = -1, s.tries-1
			return s.request()
		}
		return err
	}
	timer.Stop()
	return nil
}

// errNoRange is a server that does not send the file's length with a range, or that
// has an empty file.
var errNoRange = errors.New("the server sent no range")

// accept checks a response. When the server sends the file from its start, accept
// skips the bytes that were already read.
func (s *stream) accept(resp *http.Response) error {
	switch {
	case resp.StatusCode == http.StatusOK:
		s.total, s.until, s.ranges = resp.ContentLength, -1, false
		if n, err := io.CopyN(io.Discard, resp.Body, s.done); errors.Is(err, io.EOF) ||
			errors.Is(err, io.ErrUnexpectedEOF) {
			return &truncatedError{done: n, total: s.total}
		} else if err != nil {
			return fmt.Errorf("skipping the first %d bytes: %w", s.done, err)
		}
	case resp.StatusCode == http.StatusPartialContent && resp.Request.Header.Get("Range") != "":
		return s.acceptRange(resp.Header.Get("Content-Range"))
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && s.done == 0 && s.until >= 0:
		return errNoRange
	default:
		return &statusError{code: resp.StatusCode, status: resp.Status}
	}
	return nil
}

// acceptRange reads a Content-Range such as "bytes 0-99/300".
func (s *stream) acceptRange(got string) error {
	var first, last, total int64
	if _, err := fmt.Sscanf(got, "bytes %d-%d/%d", &first, &last, &total); err != nil {
		if _, err := fmt.Sscanf(got, "bytes %d-%d/", &first, &last); err != nil {
			return fmt.Errorf("the server sent the range %q", got)
		}
		if s.until >= 0 && s.total < 0 {
			return errNoRange
		}
		total = s.total // the server may send "*"
	}
	if first != s.done || s.total >= 0 && total != s.total {
		return fmt.Errorf("the server sent the range %q, but the request was for bytes from %d on", got, s.done)
	}
	s.total, s.ranges = total, true
	if s.until > total {
		s.until = total
	}
	return nil
}

// end is the offset at which the stream ends, or -1 when only the server knows.
func (s *stream) end() int64 {
	if s.until >= 0 {
		return s.until
	}
	return s.total
}

// Read implements io.Reader. io.EOF means that the server sent all announced bytes.
func (s *stream) Read(p []byte) (int, error) {
	for {
		if s.failed != nil {
			return 0, s.failed
		}
		if end := s.end(); end >= 0 && s.ranges {
			if s.done >= end {
				return 0, io.EOF
			}
			p = p[:min(int64(len(p)), end-s.done)]
		}
		s.timer.Reset(s.fetcher.stall) // measure only the server's silence, not a slow disk here
		n, err := s.body.Read(p)
		s.timer.Stop()
		s.done += int64(n)
		if n > 0 || err == nil {
			return n, nil
		}
		if errors.Is(err, io.EOF) && (s.end() < 0 || s.done >= s.end()) {
			return 0, io.EOF
		}
		s.drop()
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = &truncatedError{done: s.done, total: s.total}
		}
		for err != nil {
			if s.failed = s.again(err); s.failed != nil {
				return 0, s.failed
			}
			err = s.request()
		}
	}
}

// again waits for the next attempt, or returns err when none is left.
func (s *stream) again(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if !transient(err) || s.tries >= s.fetcher.attempts {
		return err
	}
	select {
	case <-time.After(s.fetcher.wait << (s.tries - 1)):
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s *stream) drop() {
	if s.body != nil {
		s.cancel()
		_ = s.body.Close() // the next request fetches the unread rest
		s.body = nil
	}
}

// Close ends the stream.
func (s *stream) Close() error {
	s.drop()
	return nil
}
