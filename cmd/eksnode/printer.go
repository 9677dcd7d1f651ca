package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// printer prints lines for a person.
type printer struct {
	w       io.Writer
	err     error // the first one
	colours bool
}

// newPrinter returns a printer, with colours where w is a terminal that has
// them.
func newPrinter(w io.Writer) *printer { return &printer{w: w, colours: hasColours(w, os.Getenv)} }

// hasColours reports whether w is a terminal that shows colours. NO_COLOR
// (https://no-color.org) and TERM=dumb turn colours off.
func hasColours(w io.Writer, env func(string) string) bool {
	if out, ok := w.(*stdout); ok {
		w = out.Writer
	}
	file, ok := w.(*os.File)
	return ok && env("NO_COLOR") == "" && env("TERM") != "dumb" && runtime.GOOS != "windows" && term.IsTerminal(int(file.Fd()))
}

// colour is a colour of ECMA-48 terminals.
type colour int

// The colours.
const (
	plain  colour = 0
	red    colour = 31
	green  colour = 32
	yellow colour = 33
)

// wordColours are the colours of the words that begin lines.
var wordColours = map[string]colour{
	"PASS": green, "DONE": green, "OK": green, "FAIL": red, "FAILED": red, "finding": red, "error": red, "UNKNOWN": yellow, "WARN": yellow,
}

// line prints a line. Its first word decides the colour of that word.
func (p *printer) line(format string, args ...any) {
	text := show.Printable(fmt.Sprintf(format, args...))
	word, _, _ := strings.Cut(strings.TrimLeft(text, " "), " ")
	before, after, _ := strings.Cut(text, word)
	p.write(before + p.paint(wordColours[strings.TrimSuffix(word, ":")], word) + after)
}

// colored prints a whole line in one colour.
func (p *printer) colored(c colour, text string) { p.write(p.paint(c, show.Printable(text))) }

func (p *printer) paint(c colour, text string) string {
	if !p.colours || c == plain {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
}

func (p *printer) write(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text+"\n")
	}
}

// shown is a name as it is or, where the name would break the line or is not
// text, in Go's quotes.
func shown(name string) string {
	if show.Line(name) == name {
		return name
	}
	return strconv.Quote(name)
}

// line is a name or a reason that must not break its line.
func line(text string) string { return show.Line(text) }
