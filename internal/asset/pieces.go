package asset

import (
	"cmp"
	"context"
	"errors"
	"io"
)

// content is a file that is being fetched.
type content interface {
	io.ReadCloser
	// size is the file's length in bytes, or -1 when it is unknown.
	size() int64
}

func (s *stream) size() int64 { return s.total }

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
		return nil, err
	}
	p := &pieces{fetcher: f, cancel: cancel, first: first, ahead: make(chan chan piece, connections-2)}
	if first.ranges && first.until < first.total {
		go p.fetch(ctx, address, first.until, first.total)
	} else {
		close(p.ahead)
	}
	return p, nil
}

// openText fetches a small file with one request.
func (f *Fetcher) openText(ctx context.Context, address string) (content, error) {
	if isFile(address) {
		return openFile(address, 0)
	}
	return f.stream(ctx, address, 0, -1)
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

func (p *pieces) size() int64 { return p.first.size() }

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

// one fetches one piece.
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

// Read implements io.Reader.
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
