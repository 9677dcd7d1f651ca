package userdata

import (
	"bytes"
	"strings"
)

// word is a word of a shell command.
type word struct {
	text string
	line int
	// dynamic says that the shell puts something in: a variable or the output
	// of a command.
	dynamic bool
	// bytes are the text while it is read.
	bytes []byte
}

// whole is a word that was read to its end.
func (w *word) whole() word { return word{text: string(w.bytes), line: w.line, dynamic: w.dynamic} }

// document is a here-document.
type document struct {
	text string
	// before is how many lines of the script lie before it.
	before int
	// dynamic says that the shell puts something in.
	dynamic bool
}

// readShell takes a shell script apart into its simple commands, and its
// here-documents. It reads what user data is made of: quotes, continued lines,
// comments and redirections; what a shell would compute it leaves as it is
// written.
func readShell(script string) ([][]word, []document) {
	s := &shell{text: script, line: 1}
	for s.i < len(s.text) {
		s.next()
	}
	s.endCommand()
	return s.all, s.documents
}

type shell struct {
	text    string
	i, line int

	all     [][]word
	command []word
	current *word
	// skip leaves the next word out: it is where output goes.
	skip bool
	// until is the word that ends a here-document which begins at the next line,
	// and literal says that the shell puts nothing into it.
	until   string
	literal bool

	documents []document
}

func (s *shell) next() {
	ch := s.text[s.i]
	switch {
	case ch == '\\' && s.i+1 < len(s.text):
		if s.text[s.i+1] == '\n' {
			s.line++
		} else {
			s.add(s.text[s.i+1])
		}
		s.i += 2
	case ch == '\'' || ch == '"':
		s.quoted(ch)
	case ch == '\n':
		s.endCommand()
		s.i++
		s.line++
		s.hereDocument()
	case ch == ' ' || ch == '\t' || ch == '\r':
		s.endWord()
		s.i++
	case ch == '#' && s.current == nil:
		for s.i < len(s.text) && s.text[s.i] != '\n' {
			s.i++
		}
	case strings.HasPrefix(s.text[s.i:], "<<"):
		s.beginHere()
	case ch == '>' || ch == '<':
		s.redirection()
	case ch == '&' && (s.i+1 < len(s.text) && s.text[s.i+1] == '>'):
		s.i++
	case strings.IndexByte(";&|()", ch) >= 0:
		s.endCommand()
		s.i++
	default:
		s.add(ch)
		if ch == '$' || ch == '`' {
			s.current.dynamic = true
		}
		s.i++
	}
}

func (s *shell) add(ch byte) {
	s.open()
	s.current.bytes = append(s.current.bytes, ch)
}

func (s *shell) open() {
	if s.current == nil {
		s.current = &word{line: s.line}
	}
}

func (s *shell) endWord() {
	if s.current != nil && !s.skip {
		s.command = append(s.command, s.current.whole())
	}
	if s.current != nil {
		s.skip = false
	}
	s.current = nil
}

func (s *shell) endCommand() {
	s.endWord()
	if len(s.command) > 0 {
		s.all = append(s.all, s.command)
	}
	s.command, s.skip = nil, false
}

func (s *shell) quoted(quote byte) {
	s.open()
	s.i++
	for s.i < len(s.text) && s.text[s.i] != quote {
		ch := s.text[s.i]
		if quote == '"' && ch == '\\' && s.i+1 < len(s.text) && strings.IndexByte("\"\\$`\n", s.text[s.i+1]) >= 0 {
			s.i++
			if ch = s.text[s.i]; ch == '\n' {
				s.line++
				s.i++
				continue
			}
		} else if quote == '"' && (ch == '$' || ch == '`') {
			s.current.dynamic = true
		}
		if ch == '\n' {
			s.line++
		}
		s.current.bytes = append(s.current.bytes, ch)
		s.i++
	}
	s.i++
}

func (s *shell) redirection() {
	if s.current != nil && len(bytes.Trim(s.current.bytes, "0123456789")) == 0 {
		s.current = nil // the number of what is redirected
	}
	s.endWord()
	for s.i < len(s.text) && strings.IndexByte("<>&|", s.text[s.i]) >= 0 {
		s.i++
	}
	s.skip = true
}

func (s *shell) beginHere() {
	s.endWord()
	s.i += 2
	rest := strings.TrimLeft(strings.TrimPrefix(s.text[s.i:], "-"), " ")
	end := strings.IndexAny(rest, " \t\r\n;|&>")
	if end < 0 {
		end = len(rest)
	}
	s.literal = strings.ContainsAny(rest[:end], `'"\`)
	s.until = strings.Trim(rest[:end], `'"\`)
	s.i = len(s.text) - len(rest) + end
}

// hereDocument reads the lines of a here-document.
func (s *shell) hereDocument() {
	if s.until == "" {
		return
	}
	begin, end := s.i, len(s.text)
	d := document{before: s.line - 1}
	for s.i < len(s.text) {
		line, _, _ := strings.Cut(s.text[s.i:], "\n")
		at := s.i
		s.i = min(s.i+len(line)+1, len(s.text))
		s.line++
		if strings.TrimSpace(line) == s.until {
			end = at
			break
		}
	}
	d.text = s.text[begin:end]
	d.dynamic = !s.literal && strings.ContainsAny(d.text, "$`")
	s.documents = append(s.documents, d)
	s.until = ""
}

// quote makes one word of a text, for a shell.
func quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
