package userdata

import (
	"encoding/base64"
	"errors"
	"mime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/text/encoding/charmap"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// The types of the parts that cloud-init reads.
const (
	shellMedia = "text/x-shellscript"
	cloudMedia = "text/cloud-config"
	// boothookMedia is a script that runs early at every boot; its first line may
	// be a word of cloud-init's.
	boothookMedia = "text/cloud-boothook"
	archiveMedia  = "text/cloud-config-archive"
	jinjaMedia    = "text/jinja2"
	includeMedia  = "text/x-include-url"
	onceMedia     = "text/x-include-once-url"
	plainMedia    = "text/plain"
)

// mediaOf is the type that cloud-init gives a text by how it begins; empty if
// cloud-init does not recognize the text.
func mediaOf(text string) string {
	begin := strings.ToLower(strings.TrimLeft(text[:min(len(text), 200)], " \t\r\n\f\v"))
	for _, known := range vocabulary().Begins {
		if strings.HasPrefix(begin, known.With) {
			return known.Media
		}
	}
	return ""
}

// cloudPart checks a part as cloud-init reads it. It returns the number of calls
// of bootstrap.sh and nodeadm. A part that cannot be checked counts as a call.
func (c *checker) cloudPart(p nodeconfig.Part) int {
	return c.in(c.position(p)).cloudText(p.Text, p.Media)
}

func (c *checker) cloudText(text, media string) int {
	if slices.Contains(vocabulary().Packed, media) {
		plain, _, err := nodeconfig.Unwrap([]byte(text))
		if err != nil {
			c.fail(1, "", "%v", err)
			return 1
		}
		c.at.decoded = true
		text, media = string(plain), ""
	}
	named := media
	if media == "" || media == plainMedia || media == "text/x-not-multipart" || media == shellMedia {
		if found := mediaOf(strings.TrimPrefix(text, byteOrderMark)); found != "" {
			media = found
		}
	}
	empty := strings.TrimSpace(text) == ""
	switch {
	case empty && strings.HasPrefix(named, shellMedia):
		c.warn(1, "", "the script is empty, and cloud-init reports that running an empty script failed")
		return 0
	case empty:
		return 0
	case strings.HasPrefix(text, byteOrderMark) && media != shellMedia && media != boothookMedia &&
		named != cloudMedia && named != nodeconfig.MediaType:
		c.fail(1, "", "a byte-order mark precedes the text, so cloud-init does not recognize it; "+noMark)
		text = strings.TrimPrefix(text, byteOrderMark)
	}
	return c.cloudMedia(text, media, named)
}

// cloudMedia checks a text of a type. The type named is the one in the MIME
// header.
func (c *checker) cloudMedia(text, media, named string) int {
	switch media {
	case shellMedia, "text/x-shellscript-per-boot", "text/x-shellscript-per-instance", "text/x-shellscript-per-once":
		if !c.executable(text) {
			return mentions(text)
		}
		return c.script(text)
	case boothookMedia:
		return c.boothook(text)
	case cloudMedia:
		return c.cloudConfig(text, named)
	case archiveMedia:
		return c.archive(text)
	case jinjaMedia:
		return c.jinja(text)
	case includeMedia, onceMedia:
		c.warn(1, "", "cloud-init downloads further user data, which is not checked")
		return 1
	case "":
		c.fail(1, "", "cloud-init does not recognize the text; %s", shebangAdvice)
		return mentions(text)
	default:
		return 0
	}
}

// boothook checks a script that runs early at every boot.
func (c *checker) boothook(text string) int {
	const header = "#cloud-boothook"
	script := strings.TrimLeft(strings.TrimPrefix(text, header), " \t\r\n")
	c = c.within(strings.Count(text[:len(text)-len(script)], "\n"))
	if !c.executable(script) {
		return 0
	}
	return c.script(script)
}

// jinja checks a template. What the template computes is not checked.
func (c *checker) jinja(text string) int {
	_, rest, _ := strings.Cut(strings.TrimLeft(text, "\r\n"), "\n")
	if strings.Contains(rest, "{{") || strings.Contains(rest, "{%") {
		return mentions(rest)
	}
	return c.within(1).cloudText(rest, "")
}

// topNode returns the top node of a YAML text, which must have this kind. Otherwise
// it reports the problem and returns the number of calls to assume.
func (c *checker) topNode(text string, kind yaml.Kind, wrong string) (top *yaml.Node, called int) {
	if !c.isReadable(text) {
		return nil, 1
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		c.lines(errors.New("reading the YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")))
		return nil, 1
	}
	if len(document.Content) == 0 || document.Content[0].Kind != kind {
		c.fail(1, "", "%s", wrong)
		return nil, 0
	}
	return document.Content[0], 0
}

// archive checks a list of parts in YAML: texts, or objects with type and
// content.
func (c *checker) archive(text string) int {
	list, called := c.topNode(text, yaml.SequenceNode, "a cloud-config-archive is a list of parts")
	if list == nil {
		return called
	}
	for _, part := range list.Content {
		content, media := part, ""
		if part.Kind == yaml.MappingNode {
			content = strictjson.Child(part, "content")
			if kind := strictjson.Child(part, "type"); kind != nil {
				media = kind.Value
			}
		}
		if content == nil || content.Kind != yaml.ScalarNode {
			c.fail(part.Line, "content", "a part must be text, or an object with type and content")
			continue
		}
		if media == "" && mediaOf(content.Value) == "" {
			media = cloudMedia
		}
		called += c.in(c.scalar(content)).cloudText(content.Value, media)
	}
	return called
}

// scalar is where the text of a YAML scalar is.
func (c *checker) scalar(n *yaml.Node) position {
	if n.Style&yaml.LiteralStyle != 0 { // the text begins on the line after |
		return c.at.below(n.Line)
	}
	at, folded := c.at.below(n.Line-1), n.Style&yaml.FoldedStyle != 0
	at.decoded = at.decoded || folded || strings.Contains(strings.TrimRight(n.Value, "\n"), "\n")
	return at
}

// writeFiles notes the files that a cloud-config writes, so that they can be
// checked where they are run.
func (c *checker) writeFiles(list *yaml.Node) {
	for _, entry := range list.Content {
		name, content := strictjson.Child(entry, "path"), strictjson.Child(entry, "content")
		encoding := strictjson.Child(entry, "encoding")
		if name == nil || content == nil || content.Kind != yaml.ScalarNode {
			continue
		}
		text, at := content.Value, c.scalar(content)
		if encoding != nil {
			var ok bool
			if text, ok = decodeFile(text, strings.ToLower(encoding.Value)); !ok {
				c.fail(content.Line, "write_files", "the content of %s is not %s", name.Value, encoding.Value)
				continue
			}
			at.decoded = at.decoded || strings.ToLower(encoding.Value) != "text/plain"
		}
		c.write(name.Value, text, at, strictjson.Text(entry, "append") == "true")
	}
}

// decodeFile undoes an encoding of write_files
// (cloudinit/config/cc_write_files.py, canonicalize_extraction).
func decodeFile(text, encoding string) (string, bool) {
	plain, packed := []byte(text), false
	switch encoding {
	case "", "text/plain":
		return text, true
	case "gz", "gzip":
		packed = true
	case "gz+base64", "gzip+base64", "gz+b64", "gzip+b64", "b64", "base64":
		packed = strings.HasPrefix(encoding, "gz")
		var err error
		if plain, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err != nil {
			return "", false
		}
	default:
		return "", false
	}
	if packed {
		out, in, err := nodeconfig.Unwrap(plain)
		return string(out), err == nil && in != nil
	}
	return string(plain), true
}

// nodeConfigFiles checks the NodeConfigs that are written into the folder of
// parts, and the files that cloud-init runs on its own.
func (c *checker) nodeConfigFiles() int {
	called := 0
	for _, name := range sortedNames(c.files) {
		f := c.files[name]
		switch {
		case f.seen:
		case strings.HasPrefix(name, partsFolder+"/") && isNodeConfig(f.text):
			f.seen = true
			c.in(f.at).nodeConfigs([]nodeconfig.Part{{Text: f.text}}, false)
		case strings.HasPrefix(name, "/var/lib/cloud/scripts/per-"):
			called += c.run(f)
		}
	}
	return called
}

// knownMedia are the types of parts that cloud-init or a first boot reads.
func knownMedia() []string { return slices.Concat(vocabulary().Media, vocabulary().Packed) }

// parts takes a text apart. A text that is not MIME is one part without a type.
func (c *checker) parts(text string) []nodeconfig.Part {
	if !nodeconfig.IsMIME(text) {
		return []nodeconfig.Part{{Text: text}}
	}
	parts, problems := nodeconfig.ReadMIME(text)
	isConfig := func(p nodeconfig.Part) bool { return p.Media == nodeconfig.MediaType }
	c.beforeMIME(text, slices.ContainsFunc(parts, isConfig))
	for _, p := range problems {
		if p.Severity == nodeconfig.Odd {
			c.warn(p.Line, p.Field, "%s", p.Text)
		} else {
			c.fail(p.Line, p.Field, "%s", p.Text)
		}
	}
	for i, p := range parts {
		if p.Media != "" && !slices.Contains(knownMedia(), p.Media) {
			c.warn(p.Line, "Content-Type", "nothing reads parts of the type %s; %s", p.Media,
				show.Suggest(p.Media, knownMedia()))
		}
		if p.Media != nodeconfig.MediaType { // first boot reads UTF-8 and UTF-16
			parts[i].Text = decodeCharset(p)
		}
	}
	return parts
}

// beforeMIME reports what precedes a MIME header. cloud-init then takes the whole
// text for one part without a type; first boot reads the NodeConfigs all the same.
func (c *checker) beforeMIME(text string, hasConfig bool) {
	report, what := c.fail, "blank lines or spaces"
	if hasConfig {
		report = c.warn
	}
	switch {
	case strings.HasPrefix(text, byteOrderMark):
		what = "a byte-order mark"
	case strings.TrimLeft(text, " \t\r\n") == text:
		return
	}
	report(1, "", "cloud-init does not recognize MIME after %s; the MIME header must begin with the first byte", what)
}

// decodeCharset is a part's text in UTF-8.
func decodeCharset(p nodeconfig.Part) string {
	_, params, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
	if err != nil {
		return p.Text
	}
	decoder := map[string]*charmap.Charmap{
		"iso-8859-1": charmap.ISO8859_1, "latin1": charmap.ISO8859_1, "iso-8859-15": charmap.ISO8859_15,
		"windows-1252": charmap.Windows1252,
	}[strings.ToLower(params["charset"])]
	if decoder == nil {
		return p.Text
	}
	text, err := decoder.NewDecoder().String(p.Text)
	if err != nil {
		return p.Text
	}
	return text
}

// position is where a part's text is.
func (c *checker) position(p nodeconfig.Part) position {
	at := c.at.below(p.Before)
	at.decoded = at.decoded || p.Encoded
	return at
}

func hasPart(text string, media ...string) bool {
	if !nodeconfig.IsMIME(text) {
		return false
	}
	parts, _ := nodeconfig.ReadMIME(text)
	return slices.ContainsFunc(parts, func(p nodeconfig.Part) bool { return slices.Contains(media, p.Media) })
}
