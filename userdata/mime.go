package userdata

import (
	"encoding/base64"
	"errors"
	"mime"
	"net/textproto"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// part is one part of a MIME message, or a text that is none as a whole.
type part struct {
	// media is its type, such as text/x-shellscript; empty for a plain text.
	media string
	text  string
	// header are the part's own first lines.
	header string
	// before is how many lines lie before the text.
	before int
}

// isMIME says whether a text begins as MIME does.
func isMIME(text string) bool {
	name, _, found := strings.Cut(firstLine(text), ":")
	return found && (strings.EqualFold(name, "MIME-Version") || strings.EqualFold(name, "Content-Type"))
}

// knownMedia are the types of parts that cloud-init or a first boot reads
// (https://cloudinit.readthedocs.io/en/latest/explanation/format.html).
func knownMedia() []string {
	return []string{
		nodeconfig.MediaType, shellMedia, cloudMedia, boothookMedia, "text/cloud-config-archive", "text/cloud-config-jsonp", "text/jinja2",
		"text/part-handler", "text/plain", "text/upstart-job", "text/x-include-once-url", "text/x-include-url",
		"text/x-shellscript-per-boot", "text/x-shellscript-per-instance", "text/x-shellscript-per-once",
	}
}

// mediaType reads a content type. eksctl writes boundary=// without the quotes
// that RFC 2045 asks for.
func mediaType(text string) (media string, params map[string]string, err error) {
	media, params, err = mime.ParseMediaType(text)
	if !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return media, params, err
	}
	for parameter := range strings.SplitSeq(text, ";") {
		if name, value, _ := strings.Cut(strings.TrimSpace(parameter), "="); strings.EqualFold(name, "boundary") {
			return media, map[string]string{"boundary": strings.Trim(strings.TrimSpace(value), `"`)}, nil
		}
	}
	return media, nil, nil
}

// header reads the lines of a MIME header from one on, and says where what
// follows begins.
func header(lines []string, from int) (textproto.MIMEHeader, int) {
	h := textproto.MIMEHeader{}
	last := ""
	var values []string
	end := func() {
		if last != "" {
			h.Set(last, strings.Join(values, " "))
		}
	}
	defer end()
	for i := from; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], "\r")
		if line == "" {
			return h, i + 1
		}
		if (line[0] == ' ' || line[0] == '\t') && last != "" {
			values = append(values, strings.TrimSpace(line))
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found || strings.ContainsAny(name, " \t") {
			return h, i // no header, so the text begins here
		}
		end()
		last, values = textproto.CanonicalMIMEHeaderKey(name), []string{strings.TrimSpace(value)}
	}
	return h, len(lines)
}

// parts takes a text apart. It knows lines, which mime/multipart does not.
func (c *checker) parts(text string) []part {
	if !isMIME(text) {
		return []part{{text: text}}
	}
	lines := strings.Split(text, "\n")
	from := 0
	for strings.TrimSpace(lines[from]) == "" {
		from++
	}
	h, body := header(lines, from)
	media, params, err := mediaType(h.Get("Content-Type"))
	if err != nil {
		c.fail(from+1, "Content-Type", "it cannot be read: %v", err)
		return nil
	}
	if !strings.HasPrefix(media, "multipart/") {
		return []part{{media: media, text: strings.Join(lines[body:], "\n"), before: body}}
	}
	boundary := params["boundary"]
	if boundary == "" {
		c.fail(from+1, "Content-Type", "it names no boundary")
		return nil
	}
	return c.multipart(lines, body, boundary, maxDepth)
}

// maxDepth bounds how deep MIME parts may lie in one another.
const maxDepth = 8

func (c *checker) multipart(lines []string, body int, boundary string, depth int) []part {
	if depth == 0 {
		c.fail(body, "", "its MIME parts lie more than %d deep in one another", maxDepth)
		return nil
	}
	var parts []part
	start, closed := -1, 0
	end := func(i int) {
		if start < 0 {
			return
		}
		h, from := header(lines[:i], start)
		p := part{text: strings.Join(lines[from:i], "\n"), header: strings.Join(lines[start:from], "\n"), before: from}
		media, params, err := mediaType(h.Get("Content-Type"))
		switch {
		case err != nil:
			c.fail(start+1, "Content-Type", "the part has none that can be read")
		case strings.HasPrefix(media, "multipart/"): // parts within a part
			parts = append(parts, c.multipart(lines[:i], from, params["boundary"], depth-1)...)
			return
		case !slices.Contains(knownMedia(), media):
			c.warn(start+1, "Content-Type", "nobody reads parts of the type %s; %s", media, nearest(media, knownMedia()))
		}
		p.media = media
		if strings.EqualFold(h.Get("Content-Transfer-Encoding"), "base64") {
			plain, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(p.text), ""))
			if err != nil {
				c.fail(from+1, "", "the part is not base64: %v", err)
			}
			p.text = string(plain)
		}
		parts = append(parts, p)
	}
	for i := body; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " \t\r")
		switch {
		case closed > 0 && strings.HasPrefix(strings.ToLower(line), "content-type:"):
			c.fail(i+1, "", "this part follows --%s--, which in line %d ended the last: nobody reads it", boundary, closed)
		case closed > 0:
		case line == "--"+boundary+"--":
			end(i)
			start, closed = -1, i+1
		case line == "--"+boundary:
			end(i)
			start = i + 1
		case strings.HasPrefix(line, "--"+boundary+"--"):
			c.fail(i+1, "", "--%s-- ends the last part only on a line of its own", boundary)
			end(i)
			start, closed = -1, i+1
		}
	}
	if closed == 0 {
		c.fail(len(lines), "", "--%s-- is missing, which ends the last part", boundary)
		end(len(lines))
	}
	if len(parts) == 0 {
		c.fail(body, "", "no part begins with --%s on a line of its own", boundary)
	}
	return parts
}

// hasPart says whether a text is MIME with a part of a type.
func hasPart(text, media string) bool {
	if !isMIME(text) {
		return false
	}
	for _, p := range (&checker{report: &Report{}}).parts(text) {
		if p.media == media {
			return true
		}
	}
	return false
}
