package remote

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// The limits of what a machine may print on the screen. The report has everything.
const (
	shownMost = 4 << 10 // bytes of a line
	linesMost = 20_000
	errorMost = 16 << 10 // bytes of the session's error
)

// screen is Packer's Ui for text from machines. It makes each text printable and one
// line, cuts long lines, and prints at most linesMost lines.
type screen struct {
	packersdk.Ui
	mu    sync.Mutex
	shown int
}

// Screen is Packer's Ui for text that a machine or a disk has sent.
func Screen(ui packersdk.Ui) packersdk.Ui { return &screen{Ui: ui} }

// Say implements packersdk.Ui.
func (s *screen) Say(text string) { s.show(s.Ui.Say, text) }

// Error implements packersdk.Ui.
func (s *screen) Error(text string) { s.show(s.Ui.Error, text) }

func (s *screen) show(say func(string), text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.shown++; {
	case s.shown == linesMost:
		say("(no more lines are shown; the report has the rest)")
	case s.shown < linesMost:
		say(show.Line(clipped(text, shownMost)))
	}
}

// Reopen starts the count of lines again, so that the last lines are shown.
func (s *screen) Reopen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = 0
}

// clipped is the beginning of a text that is too long.
func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + fmt.Sprintf(" … (%d bytes more)", len(text)-most)
}

// shownError is an error as Packer may print it.
type shownError struct{ error }

func (e shownError) Error() string {
	text := e.error.Error()
	var short *briefError
	if errors.As(e.error, &short) {
		text = strings.Replace(text, short.Error(), short.brief, 1)
	}
	return show.Printable(clipped(text, errorMost))
}

func (e shownError) Unwrap() error { return e.error }

// shown is err as Packer may print it.
func shown(err error) error {
	if err == nil {
		return nil
	}
	return shownError{err}
}

// asideMost bounds one line of standard error.
const asideMost = 64 << 10

// lines is a writer that calls each with whole lines, without line ends. Flush
// passes on the last line. A line of more than most bytes is passed on in pieces.
type lines struct {
	most int
	each func(line []byte)
	rest []byte
}

// Write implements io.Writer. It never fails.
func (l *lines) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		piece, rest, ends := p, []byte(nil), false
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			piece, rest, ends = p[:i], p[i+1:], true
		}
		if room := l.most - len(l.rest); len(piece) > room {
			piece, rest, ends = p[:room], p[room:], true
		}
		l.rest = append(l.rest, piece...)
		if ends {
			l.Flush()
		}
		p = rest
	}
	return written, nil
}

// Flush passes on the last line unless that line is empty.
func (l *lines) Flush() {
	if line := bytes.TrimRight(l.rest, "\r"); len(line) > 0 {
		l.each(line)
	}
	l.rest = l.rest[:0]
}
