package userdata

import (
	"mime"
	"slices"
	"strings"

	"golang.org/x/text/encoding/charmap"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// knownMedia are the types of parts that cloud-init or a first boot reads
// (https://docs.cloud-init.io/en/latest/explanation/format.html).
func knownMedia() []string {
	return append([]string{
		nodeconfig.MediaType, shellMedia, cloudMedia, boothookMedia, archiveMedia, jsonpMedia, jinjaMedia, handlerMedia, includeMedia, onceMedia,
		plainMedia, "application/octet-stream", "text/x-not-multipart", "text/upstart-job",
		"text/x-shellscript-per-boot", "text/x-shellscript-per-instance", "text/x-shellscript-per-once",
	}, packedMedia()...)
}

// packedMedia are the types of parts that cloud-init decompresses
// (cloudinit/user_data.py, DECOMP_TYPES).
func packedMedia() []string {
	return []string{
		"application/gzip", "application/gzip-compressed", "application/gzipped", "application/x-compress",
		"application/x-compressed", "application/x-gunzip", "application/x-gzip", "application/x-gzip-compressed",
	}
}

// parts takes a text apart. A text that is not MIME is one part without a type.
func (c *checker) parts(text string) []nodeconfig.Part {
	if !nodeconfig.IsMIME(text) {
		return []nodeconfig.Part{{Text: text}}
	}
	parts, problems := nodeconfig.ReadMIME(text)
	c.beforeMIME(text, slices.ContainsFunc(parts, func(p nodeconfig.Part) bool { return p.Media == nodeconfig.MediaType }))
	for _, p := range problems {
		if p.Severity == nodeconfig.Odd {
			c.warn(p.Line, p.Field, "%s", p.Text)
		} else {
			c.fail(p.Line, p.Field, "%s", p.Text)
		}
	}
	for i, p := range parts {
		if p.Media != "" && !slices.Contains(knownMedia(), p.Media) {
			c.warn(p.Line, "Content-Type", "nothing reads parts of the type %s; %s", p.Media, nearest(p.Media, knownMedia()))
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
		"iso-8859-1": charmap.ISO8859_1, "latin1": charmap.ISO8859_1, "iso-8859-15": charmap.ISO8859_15, "windows-1252": charmap.Windows1252,
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

// hasPart says whether a text is MIME with a part of a type.
func hasPart(text string, media ...string) bool {
	if !nodeconfig.IsMIME(text) {
		return false
	}
	parts, _ := nodeconfig.ReadMIME(text)
	return slices.ContainsFunc(parts, func(p nodeconfig.Part) bool { return slices.Contains(media, p.Media) })
}
