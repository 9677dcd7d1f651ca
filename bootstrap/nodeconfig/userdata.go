package nodeconfig

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// ErrNone reports a text without a NodeConfig: a shell script, cloud configuration,
// MIME without a part of MediaType, or an empty text.
var ErrNone = errors.New("no NodeConfig in it")

// maxText is the maximum size of a text with all of its parts decompressed, in bytes.
// EC2 limits user data to 16 KiB before decompression.
const maxText = 1 << 20

// Parse reads the NodeConfigs in a text. The text is MIME, YAML or JSON, possibly
// compressed with gzip and encoded in base64. MIME parts of MediaType are read the same
// way and merged in order; other parts are for cloud-init. Parse fails with ErrNone if
// the text has no NodeConfig. Errors name the line in the text, or in the decoded part
// if the part is encoded or compressed. Warnings name settings that are probably
// mistakes.
func Parse(text []byte) (c *NodeConfig, warnings []string, err error) {
	p := parser{left: newBudget(), unpacked: maxText}
	if err := p.text(text); err != nil {
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
	// left and unpacked are the unused part of the limits.
	left     *budget
	unpacked int
}

func (p *parser) text(text []byte) error {
	text, err := p.unwrap(text)
	if err != nil {
		return err
	}
	if IsMIME(string(text)) {
		return p.message(string(text))
	}
	if what := foreign(text); what != "" && !declares(text) {
		return fmt.Errorf("%w: it is %s", ErrNone, what)
	}
	return p.config(text, 0)
}

// message reads the parts of a MIME message that are NodeConfigs. Problems of other
// parts are not reported here, because cloud-init reads those parts.
func (p *parser) message(text string) error {
	parts, problems := ReadMIME(text)
	ours := slices.ContainsFunc(parts, func(p Part) bool { return p.Media == MediaType }) ||
		slices.ContainsFunc(problems, func(m MIMEProblem) bool { return m.Media == MediaType })
	var errs []error
	for _, m := range problems {
		switch {
		case m.Severity == Fatal, m.Severity == SpoiltEnd && ours, m.Severity == OfPart && m.Media == MediaType:
			errs = append(errs, m)
		case m.Severity == AfterEnd && m.Media == MediaType:
			p.warnings = append(p.warnings, m.Error())
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	number := 0
	for _, part := range parts {
		if part.Media != MediaType || strings.TrimSpace(part.Text) == "" {
			continue
		}
		number++
		if err := p.part(part); err != nil {
			return fmt.Errorf("part %d of type %s: %w", number, MediaType, err)
		}
	}
	return nil
}

func (p *parser) part(part Part) error {
	text, err := p.unwrap([]byte(part.Text))
	if err != nil {
		return fmt.Errorf("line %d: %w", part.Before+1, err)
	}
	if !part.Encoded && string(text) == part.Text {
		return p.config(text, part.Before)
	}
	if err := p.config(text, 0); err != nil {
		return fmt.Errorf("line %d: unpacked: %w", part.Before+1, err)
	}
	return nil
}

// config reads a text. before is the number of lines of the user data before the text.
func (p *parser) config(text []byte, before int) error {
	c, warnings, err := decode(text, before, p.left)
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

func (p *parser) unwrap(text []byte) ([]byte, error) {
	plain, packed, err := unwrap(text, p.unpacked)
	if packed != nil {
		p.unpacked -= len(plain)
	}
	return plain, err
}

// Unwrap decodes base64 and decompresses gzip, as first boot does. packed is the
// compressed text without base64; nil if the text is not compressed.
func Unwrap(text []byte) (plain, packed []byte, err error) { return unwrap(text, maxText) }

func unwrap(text []byte, most int) (plain, packed []byte, err error) {
	if len(text) > maxText {
		return nil, nil, tooLarge()
	}
	if trimmed := bytes.TrimSpace(text); isBase64(trimmed) {
		if plain, err := Unbase64(string(trimmed)); err == nil {
			text = plain
		}
	}
	if !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		return text, nil, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, text, fmt.Errorf("decompressing: %w", err)
	}
	plain, err = readAll(z, most)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, text, fmt.Errorf("decompressing: the text is truncated after %d bytes", len(text))
	}
	if err != nil {
		return nil, text, fmt.Errorf("decompressing: %w", err)
	}
	return plain, text, nil
}

// isBase64 reports whether a text can only be base64. YAML, MIME and scripts contain
// colons, hash signs or dashes.
func isBase64(text []byte) bool {
	for _, c := range text {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/', c == '=',
			c == '\n', c == '\r':
		default:
			return false
		}
	}
	return len(text) > 0
}

// isForeign reports whether user data without a valid NodeConfig is for other programs:
// text, JSON, KEY=value, YAML of another kind. First boot then uses its other sources,
// as Amazon's nodeadm does.
func isForeign(text []byte) bool {
	p := parser{left: newBudget(), unpacked: maxText}
	text, err := p.unwrap(text)
	if err != nil {
		return false
	}
	if IsMIME(string(text)) {
		return !bytes.Contains(bytes.ToLower(text), []byte(MediaType))
	}
	return !IsNodeConfig(text)
}

// IsNodeConfig reports whether a text without MIME is a NodeConfig, also one with
// mistakes.
func IsNodeConfig(text []byte) bool {
	root, err := firstObject(text)
	switch {
	case declares(text):
		return true
	case foreign(text) != "":
		return false
	case err != nil:
		return looksLikeNodeConfig().Match(text)
	default:
		return root != nil && strictjson.Text(root, "apiVersion")+strictjson.Text(root, "kind") == "" &&
			looksLikeSpec(root)
	}
}

// declares reports whether a text is YAML or JSON with the identity of a NodeConfig,
// whatever its first line says to other programs: to YAML, the line is a comment.
func declares(text []byte) bool {
	root, err := firstObject(text)
	return err == nil && root != nil &&
		(strings.HasPrefix(strictjson.Text(root, "apiVersion"), Group) || strictjson.Text(root, "kind") == Kind)
}

// firstObject reads the first document that is not empty; nil if it is not an object.
func firstObject(text []byte) (*yaml.Node, error) {
	if len(text) > maxYAML {
		return nil, tooLarge()
	}
	d := yaml.NewDecoder(bytes.NewReader(strictjson.AsYAML(text)))
	for range maxDocuments {
		var doc yaml.Node
		if err := d.Decode(&doc); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return nil, err
		}
		if !isEmpty(&doc) {
			if doc.Content[0].Kind != yaml.MappingNode {
				return nil, nil
			}
			return doc.Content[0], nil
		}
	}
	return nil, nil
}

// looksLikeNodeConfig matches the apiVersion or kind of a NodeConfig in invalid YAML.
var looksLikeNodeConfig = show.Regexp(`(?m)^\W*(?:apiVersion\W.*node\.eks\.aws|kind\W.*NodeConfig)`)

// looksLikeSpec reports whether an object has the spec of a NodeConfig but no
// apiVersion and kind.
func looksLikeSpec(root *yaml.Node) bool {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != "spec" || root.Content[i+1].Kind != yaml.MappingNode {
			continue
		}
		known := strictjson.FieldsOf(reflect.TypeFor[Spec]())
		return slices.ContainsFunc(root.Content[i+1].Content, func(n *yaml.Node) bool {
			_, is := known[n.Value]
			return is && n.Kind == yaml.ScalarNode
		})
	}
	return false
}

// foreign returns the kind of a text for another program, or an empty text. Like
// cloud-init, foreign identifies the kind by the beginning of the text.
func foreign(text []byte) string {
	text = bytes.TrimSpace(text)
	line, _, _ := bytes.Cut(text, []byte("\n"))
	switch {
	case len(text) == 0:
		return "empty"
	case bytes.HasPrefix(line, []byte("#!")):
		return "a script"
	case bytes.HasPrefix(line, []byte("#cloud-")), bytes.HasPrefix(line, []byte("#include")),
		bytes.HasPrefix(line, []byte("## template:")):
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

func tooLarge() error { return fmt.Errorf("the text has more than %d MiB", maxText>>20) }
