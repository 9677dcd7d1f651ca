package nodeconfig

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net/textproto"
	"strings"
)

const maxParts = 1000

const maxDepth = 8

// Part is one part of a MIME message.
type Part struct {
	// Media is the part's type, such as text/x-shellscript; empty if the part has no
	// type.
	Media  string
	Header textproto.MIMEHeader
	// Text is the text after the header, with the transfer encoding decoded.
	Text string
	// Line is the part's first line, counted from 1.
	Line int
	// Before is the number of lines of the message before Text. The lines of an
	// Encoded text differ from those of the message.
	Before  int
	Encoded bool
}

// Severity classifies a problem of a MIME message by the programs that fail.
type Severity int

// The severities.
const (
	Fatal     Severity = iota // no program reads the message as it is meant
	OfPart                    // the program that reads the part fails
	SpoiltEnd                 // cloud-init ignores the problem
	AfterEnd                  // no program reads the part
	Odd                       // every program ignores the problem
)

// MIMEProblem is one problem of a MIME message.
type MIMEProblem struct {
	Line     int    // counted from 1
	Field    string // of the header; empty for none
	Text     string
	Severity Severity
	// Media is the type of the part that has the problem, where it matters.
	Media string
}

// Error returns the problem with its line.
func (p MIMEProblem) Error() string {
	if p.Field != "" {
		return fmt.Sprintf("line %d: %s: %s", p.Line, p.Field, p.Text)
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Text)
}

// beforeMIME lists the characters that may precede a message: blanks from
// here-documents and a byte-order mark from editors.
const beforeMIME = "\ufeff \t\r\n"

// IsMIME reports whether a text is a MIME message: a line before the first empty line
// is a MIME header. YAML may look like other headers. Leading blank lines and a
// byte-order mark are ignored.
func IsMIME(text string) bool {
	for line := range strings.Lines(strings.TrimLeft(text, beforeMIME)) {
		name, _, ok := strings.Cut(line, ":")
		switch {
		case strings.TrimSpace(line) == "":
			return false
		case line[0] == ' ', line[0] == '\t': // a header's value goes on
		case !ok:
			return false
		case strings.EqualFold(name, "MIME-Version"), strings.EqualFold(name, "Content-Type"):
			return true
		}
	}
	return false
}

// ReadMIME returns the parts of a MIME message, as cloud-init reads them. Unlike
// mime/multipart, ReadMIME reports lines. Parts that contain other parts are not
// listed themselves.
func ReadMIME(text string) ([]Part, []MIMEProblem) {
	r := mimeReader{lines: strings.Split(text, "\n")}
	from := 0
	for from < len(r.lines)-1 && strings.Trim(r.lines[from], beforeMIME) == "" {
		from++
	}
	r.lines[from] = strings.TrimLeft(r.lines[from], beforeMIME)
	r.part(from, len(r.lines), 0)
	return r.parts, r.problems
}

type mimeReader struct {
	lines    []string
	parts    []Part
	problems []MIMEProblem
	read     int // parts, also those that hold others
}

// found records a problem. line counts from 0. The number of lesser problems is
// limited.
func (r *mimeReader) found(s Severity, line int, field, media, format string, args ...any) {
	if s != Fatal && len(r.problems) >= maxProblems {
		return
	}
	r.problems = append(r.problems, MIMEProblem{line + 1, field, fmt.Sprintf(format, args...), s, media})
}

func (r *mimeReader) part(from, to, depth int) {
	switch r.read++; {
	case r.read == maxParts+1:
		r.found(Fatal, from, "", "", "the message has more than %d MIME parts", maxParts)
		return
	case r.read > maxParts:
		return
	}
	header, begin := r.header(from, to, depth == 0)
	// The line break before a delimiter is the delimiter's.
	text := strings.TrimSuffix(strings.Join(r.lines[begin:to], "\n"), "\r")
	p := Part{Header: header, Text: text, Line: from + 1, Before: begin}
	value := header.Get("Content-Type")
	media, boundary, err := mediaType(value)
	p.Media = media
	switch {
	case value == "" && strings.TrimSpace(text) == "":
		// An empty part; cloud-init passes over it.
	case value == "":
		r.found(Odd, from, "Content-Type", "", "the part has none that can be read")
	case err != nil:
		r.found(Fatal, from, "Content-Type", "", "%q cannot be read: %v", Printable(value), err)
		return
	case strings.HasPrefix(media, "multipart/") && boundary == "":
		r.found(Fatal, from, "Content-Type", "", "the boundary is missing")
		return
	case strings.HasPrefix(media, "multipart/"):
		r.multipart(begin, to, boundary, depth)
		return
	case media == MediaType && header.Get("apiVersion") != "":
		r.found(OfPart, r.lineOf("apiVersion", from, begin), "", media,
			"an empty line must stand between the part's Content-Type and its NodeConfig")
	}
	if err := p.decode(); err != nil {
		r.found(OfPart, begin, "", media, "%v", err)
	}
	r.parts = append(r.parts, p)
}

func (p *Part) decode() error {
	switch encoding := strings.ToLower(strings.TrimSpace(p.Header.Get("Content-Transfer-Encoding"))); encoding {
	case "base64":
		plain, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(p.Text), ""))
		if err != nil {
			return fmt.Errorf("the part is not base64: %w", err)
		}
		p.Text, p.Encoded = string(plain), true
	case "quoted-printable":
		plain, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(p.Text)))
		if err != nil {
			return fmt.Errorf("the part is not quoted-printable: %w", err)
		}
		// Without soft line breaks, the lines are those of the message.
		p.Encoded = strings.Count(string(plain), "\n") != strings.Count(p.Text, "\n")
		p.Text = string(plain)
	}
	return nil
}

func (r *mimeReader) lineOf(field string, from, to int) int {
	for i := from; i < to; i++ {
		if name, _, _ := strings.Cut(r.lines[i], ":"); strings.EqualFold(name, field) {
			return i
		}
	}
	return from
}

// header reads the header fields from a line on, and returns the first line of the
// text. A line that is not a field begins the text, even without an empty line before.
// cloud-init accepts such messages, and so do images without NodeConfig support. The
// header of the whole message may have names with spaces, such as mbox's From line.
func (r *mimeReader) header(from, to int, whole bool) (textproto.MIMEHeader, int) {
	h := textproto.MIMEHeader{}
	last := ""
	var values []string // of the last field, line by line
	end := func() {
		if last != "" {
			h.Add(last, strings.Join(values, " "))
		}
	}
	defer end()
	for i := from; i < to; i++ {
		line := strings.TrimRight(r.lines[i], "\r")
		if strings.TrimSpace(line) == "" {
			return h, i + 1
		}
		if (line[0] == ' ' || line[0] == '\t') && last != "" {
			values = append(values, strings.TrimSpace(line))
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found || !whole && strings.ContainsAny(name, " \t") {
			return h, i
		}
		end()
		last, values = textproto.CanonicalMIMEHeaderKey(name), []string{strings.TrimSpace(value)}
	}
	return h, to
}

// mediaType reads a content type. eksctl writes boundary=// without the quotes that
// RFC 2045 requires.
func mediaType(text string) (media, boundary string, err error) {
	media, params, err := mime.ParseMediaType(text)
	if !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return media, params["boundary"], err
	}
	for parameter := range strings.SplitSeq(text, ";") {
		if name, value, _ := strings.Cut(strings.TrimSpace(parameter), "="); strings.EqualFold(name, "boundary") {
			return media, strings.Trim(strings.TrimSpace(value), `"`), nil
		}
	}
	return media, "", nil
}

// multipart reads the parts in the lines from one to another.
func (r *mimeReader) multipart(from, to int, boundary string, depth int) {
	if depth >= maxDepth {
		r.found(Fatal, from-1, "", "", "the MIME parts nest more than %d deep", maxDepth)
		return
	}
	delimiter, last := "--"+boundary, "--"+boundary+"--"
	start, closed, parts := -1, 0, 0
	end := func(i int) {
		if start >= 0 {
			parts++
			r.part(start, i, depth+1)
		}
		start = i + 1
	}
	for i := from; i < to && r.read <= maxParts; i++ {
		line := strings.TrimRight(r.lines[i], " \t\r")
		switch {
		case closed > 0:
			r.afterEnd(i, last, closed)
		case line == delimiter:
			end(i)
		case line == last:
			end(i)
			closed = i + 1
		case strings.HasPrefix(line, last):
			r.found(SpoiltEnd, i, "", "", "%s ends the last part only on a line of its own", Printable(last))
			end(i)
			closed = i + 1
		}
	}
	opened := start >= 0 && strings.TrimSpace(strings.Join(r.lines[min(start, to):to], "")) == ""
	switch {
	case closed > 0 || r.read > maxParts:
	case opened && parts > 0: // Karpenter's examples end so; every reader takes the rest for an empty part
		r.found(Odd, start-1, "", "", "%s should end the last part, not %s", Printable(last), Printable(delimiter))
	default:
		r.found(Fatal, to-1, "", "", "%s is missing, which ends the last part", Printable(last))
		end(to)
	}
	if parts == 0 {
		r.found(Odd, from-1, "", "", "no part begins with %s on a line of its own", Printable(delimiter))
	}
}

// afterEnd records a part after the closing delimiter.
func (r *mimeReader) afterEnd(i int, last string, closed int) {
	name, value, _ := strings.Cut(strings.TrimRight(r.lines[i], " \t\r"), ":")
	if !strings.EqualFold(name, "Content-Type") {
		return
	}
	media, _, err := mediaType(value)
	if err != nil {
		media = "" // other programs do not read this part
	}
	r.found(AfterEnd, i, "", media,
		"this part follows %s, which in line %d ended the last; no program reads the part", Printable(last), closed)
}
