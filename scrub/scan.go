package scrub

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
)

// The search reads blocks, so that its memory does not grow with a file. A
// pattern sees the part of a line around its hint: that much before and after.
const (
	blockSize  = 1 << 20
	lineBefore = 512
	lineAfter  = 1024
	// ahead is what stays unread in a block for matches that begin in it.
	ahead = lineAfter + thenFar
)

// blocks are buffers that searches share, because an audit reads many files.
var blocks = sync.Pool{New: func() any { return new([blockSize]byte) }}

// scan searches one content for the patterns of an index.
type scan struct {
	ctx   context.Context
	words *index
	// name is the file's name for patterns that need one.
	name string
	// binary says that lines end at control characters; text, that patterns of
	// texts apply; database, that values stand side by side.
	binary, text, database bool
	// special leaves the patterns out that go by a name alone.
	special bool
	// found is called once for each pattern, with a line, or with an offset in a
	// binary content.
	found func(p *pattern, at int64)
	// runs is called for each block of a text, with the part that was not
	// searched before and the lines before the block. nil for none.
	runs func(block []byte, from, limit int, lines int64)

	states []state
	lines  int64 // before the block
	base   int64 // the block's offset
}

// state is a pattern in a scan.
type state struct {
	left  bool // out of the search: found, or not for this file
	asked bool
	until int // where the pattern was tried, in the block
	tries int
}

// read searches everything. An error is that of in, or of the context.
func (s *scan) read(in io.Reader) error {
	s.states = make([]state, len(s.words.patterns))
	buffer := blocks.Get().(*[blockSize]byte)
	defer blocks.Put(buffer)
	for n, from := 0, 0; ; {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		more, err := io.ReadFull(in, buffer[n:])
		n += more
		end := err != nil
		limit := n
		if !end {
			limit = n - ahead
		}
		s.block(buffer[:n], from, limit)
		if s.runs != nil {
			s.runs(buffer[:n], from, limit, s.lines)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if end {
			return err
		}
		dropped := max(limit-lineBefore-1, 0)
		s.lines += int64(bytes.Count(buffer[:dropped], []byte("\n")))
		s.base += int64(dropped)
		for i := range s.states {
			s.states[i].until -= dropped
		}
		copy(buffer[:], buffer[dropped:n])
		n, from = n-dropped, limit-dropped
	}
}

// block searches for hints that begin between from and limit.
func (s *scan) block(text []byte, from, limit int) {
	x := s.words
	start, whole := uint32(0), min(limit, len(text)-2)
	for _, b := range text[from:min(from+2, len(text))] {
		start = x.next(start, b)
	}
	for i := from; i < whole; i++ {
		start = (start<<6 | uint32(x.classes[text[i+2]])) & (starts - 1)
		if x.bits[start/64]>>(start%64)&1 != 0 {
			s.hit(text, i, x.starts[start])
		}
	}
	for i := max(from, whole); i < limit; i++ { // the end of the content
		start = x.next(start, 0)
		s.hit(text, i, x.starts[start])
	}
	s.everyLine(text, from, limit)
}

// hit runs the patterns of the hints that begin at a position.
func (s *scan) hit(text []byte, at int, number uint16) {
	for _, h := range s.words.hints[number] {
		if begins(text[at:], h.word) {
			for _, p := range h.patterns {
				s.try(text, at, at+len(h.word), p)
			}
		}
	}
}

// everyLine runs the patterns without hints on the lines that begin in a part
// of a block.
func (s *scan) everyLine(text []byte, from, limit int) {
	for _, number := range s.words.every {
		if !s.words.patterns[number].in(s.name) {
			continue
		}
		for i := from; i < limit; i++ {
			if i == 0 && s.base == 0 || i > 0 && s.ends(text[i-1]) {
				s.try(text, i, i, number)
			}
		}
	}
}

// try runs a pattern on the line around a hint, once for each part of a line.
func (s *scan) try(text []byte, at, after, number int) {
	st, p := &s.states[number], &s.words.patterns[number]
	if !st.asked {
		st.asked, st.tries = true, thenMost
		st.left = p.in != nil && !p.in(s.name) || p.text && !s.text || p.general && s.special
	}
	if st.left || at < st.until || p.run > 0 && !runs(text[after:], p.run) {
		return
	}
	begin, whole := s.begin(text, at)
	end := s.end(text, after)
	re := p.re
	if s.database && !p.text {
		re = p.loose
	}
	if p.matches(re(), text, begin, end, whole, &st.tries) {
		st.left = true
		if s.binary {
			s.found(p, s.base+int64(at))
		} else {
			s.found(p, s.lines+int64(bytes.Count(text[:begin], []byte("\n")))+1)
		}
		return
	}
	if st.until = end; end == after+lineAfter { // the line goes on
		st.until = end - lineBefore
	}
}

// begin is where the line of a position begins, and whether that is the line's
// own begin.
func (s *scan) begin(text []byte, at int) (begin int, whole bool) {
	least := max(at-lineBefore, 0)
	for i := at; i > least; i-- {
		if s.ends(text[i-1]) {
			return i, true
		}
	}
	return least, least == 0 && s.base == 0
}

func (s *scan) end(text []byte, at int) int {
	most := min(at+lineAfter, len(text))
	for i := at; i < most; i++ {
		if s.ends(text[i]) {
			return i
		}
	}
	return most
}

func (s *scan) ends(b byte) bool {
	return b == '\n' || s.binary && (b < ' ' && b != '\t' && b != '\r' || b == 0x7f)
}
