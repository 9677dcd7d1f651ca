package diagnose

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"html"
	"io"
	"strings"
	"sync"
)

// lineMost is how much of a line is searched, in bytes.
const lineMost = 4 << 20

// eachLine reads a text line by line. A line that a program wrapped in JSON is
// unwrapped and keeps its number.
func (s *Search) eachLine(text io.Reader, do func(number int, line string, e journalEntry)) error {
	in := bufio.NewReaderSize(text, 64<<10)
	var form lineForm
	for number := 1; ; number++ {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		line, err := oneLine(in)
		if line != "" || err == nil {
			s.lines++
			for _, one := range form.lines(line) {
				do(number, plain(one.line), one.entry)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// oneLine reads a line without its end and drops the part beyond lineMost.
func oneLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line == nil && !errors.Is(err, bufio.ErrBufferFull) { // most lines
			return string(bytes.TrimRight(part, "\r\n")), err
		}
		line = append(line, part[:min(len(part), lineMost-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimRight(string(line), "\r\n"), err
		}
	}
}

var (
	// colours matches what terminals and rsyslog make of colours.
	colours = once(`(?:\x1b|#033)\[[0-9;?]*[A-Za-z]`)
	// typed are the characters that word processors put in the place of others.
	typed = sync.OnceValue(func() *strings.Replacer {
		return strings.NewReplacer("\u201c", `"`, "\u201d", `"`, "\u2018", "'", "\u2019", "'", "\u00a0", " ")
	})
)

// plain removes from a line what a terminal, a web page, a word processor or a reply
// by mail added.
func plain(line string) string {
	for strings.HasPrefix(line, "> ") {
		line = line[2:]
	}
	if strings.IndexByte(line, '[') >= 0 && (strings.Contains(line, "\x1b[") || strings.Contains(line, "#033[")) {
		line = colours().ReplaceAllString(line, "")
	}
	if strings.IndexByte(line, '&') >= 0 && (strings.Contains(line, "&quot;") || strings.Contains(line, "&#") ||
		strings.Contains(line, "&lt;") || strings.Contains(line, "&amp;")) {
		line = html.UnescapeString(line)
	}
	if strings.Contains(line, "\xe2\x80") || strings.Contains(line, "\u00a0") {
		line = typed().Replace(line)
	}
	return line
}
