package remote

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
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

func (s *screen) Say(text string) { s.show(s.Ui.Say, text) }

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

// Kept is the file of a provisioner's report. From the first run on, the file
// belongs to the provisioner's process. Packer has one process for each
// provisioner of each build, so two provisioners never share a file. The zero value
// has no file yet.
type Kept struct {
	file *plan.ReportFile
	runs int
}

// begin claims the file at path for a run. A retry claims the provisioner's own
// file again.
func (k *Kept) begin(path string, begun plan.Report) error {
	if k.file != nil {
		if err := k.file.Close(); err != nil {
			return fmt.Errorf("report: %w", err)
		}
		k.file = nil
	}
	file, err := plan.ClaimReport(path, begun)
	var used *plan.InUseError
	switch {
	case errors.As(err, &used):
		return fmt.Errorf(`report: %w; give each provisioner and each build a file of its own, such as %s`, err, perSource(path))
	case err != nil:
		return fmt.Errorf("report: %w; nothing was done on the machine", err)
	}
	k.file = file
	return nil
}

func (k *Kept) write(r plan.Report) error {
	if err := k.file.Write(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func perSource(path string) string {
	extension := filepath.Ext(path)
	return strings.TrimSuffix(path, extension) + "-${source.name}" + extension
}
