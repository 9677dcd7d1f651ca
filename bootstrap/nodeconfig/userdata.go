package nodeconfig

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"strings"
)

// ErrNone says that a text is meant for somebody else: a shell script, cloud
// configuration, MIME without a part of MediaType, or nothing at all.
var ErrNone = errors.New("no NodeConfig in it")

// maxText bounds a text, and what all of its parts may grow to when they are
// decompressed, in bytes. User data has at most 16 KiB before that.
const maxText = 1 << 20

// maxParts bounds how many MIME parts a message may have.
const maxParts = 1000

// maxDepth bounds how deep MIME parts may lie in one another.
const maxDepth = 8

// Parse reads the NodeConfigs of a text in any of the forms that user data
// takes: base64, then gzip, both detected; MIME, whose parts of MediaType are
// read the same way and merged in order; or plain YAML or JSON. Other MIME
// parts are left to cloud-init. It fails with ErrNone when there is none.
// Warnings are about what was read but probably meant otherwise.
func Parse(text []byte) (c *NodeConfig, warnings []string, err error) {
	p := parser{left: newBudget(), unpacked: maxText, mime: maxParts}
	if err := p.text(text, 0); err != nil {
		return nil, nil, err
	}
	if p.merged == nil {
		return nil, nil, ErrNone
	}
	return p.merged, p.warnings, nil
}

type parser struct {
	merged   *NodeConfig
	warnings []string
	parts    int
	// left, unpacked and mime are what is left of the bounds.
	left           *budget
	unpacked, mime int
}

func (p *parser) text(text []byte, depth int) error {
	text, err := p.unwrap(text)
	if err != nil {
		return err
	}
	if header, body, ok := message(text); ok {
		return p.part(header, body, depth)
	}
	if what := foreign(text); what != "" {
		return fmt.Errorf("%w: it is %s", ErrNone, what)
	}
	return p.config(text)
}

func (p *parser) config(text []byte) error {
	c, warnings, err := decode(text, p.left)
	if err != nil {
		return err
	}
	p.warnings = append(p.warnings, warnings...)
	if p.merged == nil {
		p.merged = c
		return nil
	}
	p.warnings = append(p.warnings, p.merged.Contradictions(c)...)
	return p.merged.Merge(c)
}

// part reads one MIME part, which may be a multipart of its own.
func (p *parser) part(header textproto.MIMEHeader, body io.Reader, depth int) error {
	if p.mime--; p.mime < 0 {
		return fmt.Errorf("it has more than %d MIME parts", maxParts)
	}
	contentType := header.Get("Content-Type")
	if contentType == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	if errors.Is(err, mime.ErrInvalidMediaParameter) {
		// eksctl writes boundary=// without the quotes that RFC 2045 asks for.
		params, err = map[string]string{"boundary": unquoted(contentType)}, nil
	}
	if err != nil {
		return fmt.Errorf("reading the content type %q: %w", contentType, err)
	}
	switch {
	case strings.HasPrefix(media, "multipart/"):
		return p.multipart(body, params["boundary"], depth)
	case media == MediaType && header.Get("apiVersion") != "":
		return fmt.Errorf("part %d of type %s: an empty line must stand between the part's Content-Type and its NodeConfig", p.parts+1, MediaType)
	case media == MediaType:
		p.parts++
		text, err := readAll(body, maxText)
		if err == nil {
			text, err = p.unwrap(text)
		}
		if err == nil {
			err = p.config(text)
		}
		if err != nil {
			return fmt.Errorf("part %d of type %s: %w", p.parts, MediaType, err)
		}
	}
	return nil
}

// unquoted finds the boundary of a content type whose parameters are not
// written by the rules.
func unquoted(contentType string) string {
	for parameter := range strings.SplitSeq(contentType, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if strings.EqualFold(name, "boundary") {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

func (p *parser) multipart(body io.Reader, boundary string, depth int) error {
	if depth >= maxDepth {
		return fmt.Errorf("its MIME parts lie more than %d deep in one another", maxDepth)
	}
	if boundary == "" {
		return errors.New("its multipart content type names no boundary")
	}
	text, err := readAll(body, maxText)
	if err != nil {
		return err
	}
	if !bytes.Contains(text, []byte("--"+boundary+"--")) {
		return fmt.Errorf("its MIME parts are cut short: there is no --%s--, which ends the last; every part begins with --%s on a line of its own", boundary, boundary)
	}
	r := multipart.NewReader(bytes.NewReader(separated(text, "--"+boundary)), boundary)
	for {
		part, err := r.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil && !bytes.Contains(bytes.ToLower(text), []byte(MediaType)) {
			break // cloud-init reads what is left of it, and none of that is for us
		}
		if err != nil {
			return fmt.Errorf("reading the MIME parts: %w; every part begins with --%s on a line of its own, and --%s-- ends the last", err, boundary, boundary)
		}
		if err := p.part(part.Header, part, depth+1); err != nil {
			return err
		}
	}
	if _, after, _ := strings.Cut(string(text), "--"+boundary+"--"); strings.Contains(after, MediaType) {
		p.warnings = append(p.warnings, fmt.Sprintf("a NodeConfig follows --%s--, which ends the last part; it is not read", boundary))
	}
	return nil
}

// separated puts an empty line behind headers that lack it, where the first line
// that is no header tells that the text begins: cloud-init reads such messages,
// and so do images that know no NodeConfig. A header begins behind each line
// that is the delimiter; without one the text begins with the only one.
func separated(text []byte, delimiter string) []byte {
	var out []byte
	header := delimiter == ""
	for line := range bytes.Lines(text) {
		name, _, found := bytes.Cut(line, []byte(":"))
		switch {
		case delimiter != "" && bytes.Equal(bytes.TrimRight(line, " \t\r\n"), []byte(delimiter)):
			header = true
		case !header:
		case len(bytes.TrimSpace(line)) == 0:
			header = false
		case line[0] != ' ' && line[0] != '\t' && (!found || bytes.ContainsAny(name, " \t")):
			out = append(out, '\n')
			header = false
		default: // another line of the header
		}
		out = append(out, line...)
	}
	return out
}

// unwrap undoes base64 and gzip.
func (p *parser) unwrap(text []byte) ([]byte, error) {
	if len(text) > maxText {
		return nil, tooLarge()
	}
	if trimmed := bytes.TrimSpace(text); isBase64(trimmed) {
		if plain, err := Unbase64(string(trimmed)); err == nil {
			text = plain
		}
	}
	if !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		return text, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	plain, err := readAll(z, p.unpacked)
	p.unpacked -= len(plain)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("decompressing: it is cut short after %d bytes", len(text))
	}
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	return plain, nil
}

// isBase64 takes as base64 only what cannot be anything else: YAML, MIME and
// scripts have colons, hash signs or dashes.
func isBase64(text []byte) bool {
	for _, c := range text {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/', c == '=', c == '\n', c == '\r':
		default:
			return false
		}
	}
	return len(text) > 0
}

// message splits a MIME message. Leading blank lines, which here-documents
// leave, are passed over.
func message(text []byte) (textproto.MIMEHeader, io.Reader, bool) {
	text = bytes.TrimLeft(text, " \t\r\n")
	if !hasHeader(text) {
		return nil, nil, false
	}
	m, err := mail.ReadMessage(bytes.NewReader(separated(text, "")))
	if err != nil {
		return nil, nil, false
	}
	return textproto.MIMEHeader(m.Header), m.Body, true
}

// hasHeader says whether a text begins as MIME does, and not as YAML, which
// could be taken for a header too: one of the lines before the first empty one
// says so.
func hasHeader(text []byte) bool {
	for line := range bytes.Lines(text) {
		name, _, ok := bytes.Cut(line, []byte(":"))
		switch {
		case len(bytes.TrimSpace(line)) == 0:
			return false
		case line[0] == ' ', line[0] == '\t': // a header's value goes on
		case !ok:
			return false
		case strings.EqualFold(string(name), "MIME-Version"), strings.EqualFold(string(name), "Content-Type"):
			return true
		}
	}
	return false
}

// foreign names a text that is not for us by how it begins, as cloud-init
// tells them apart.
func foreign(text []byte) string {
	text = bytes.TrimSpace(text)
	line, _, _ := bytes.Cut(text, []byte("\n"))
	switch {
	case len(text) == 0:
		return "empty"
	case bytes.HasPrefix(line, []byte("#!")):
		return "a script"
	case bytes.HasPrefix(line, []byte("#cloud-")), bytes.HasPrefix(line, []byte("#include")), bytes.HasPrefix(line, []byte("## template:")):
		return "for cloud-init"
	case bytes.HasPrefix(line, []byte("<powershell>")), bytes.HasPrefix(line, []byte("<script>")):
		return "for Windows"
	case bytes.HasPrefix(line, []byte("[settings")), bytes.HasPrefix(line, []byte("settings.")):
		return "for Bottlerocket"
	default:
		return ""
	}
}

func readAll(r io.Reader, most int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(text) > most {
		return nil, tooLarge()
	}
	return text, nil
}

func tooLarge() error { return fmt.Errorf("it has more than %d MiB", maxText>>20) }
