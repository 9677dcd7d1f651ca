package userdata

import (
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// knownMedia are the types of parts that cloud-init or a first boot reads
// (https://cloudinit.readthedocs.io/en/latest/explanation/format.html).
func knownMedia() []string {
	return []string{
		nodeconfig.MediaType, shellMedia, cloudMedia, boothookMedia, "text/cloud-config-archive", "text/cloud-config-jsonp", "text/jinja2",
		"text/part-handler", "text/plain", "text/upstart-job", "text/x-include-once-url", "text/x-include-url",
		"text/x-shellscript-per-boot", "text/x-shellscript-per-instance", "text/x-shellscript-per-once",
	}
}

// parts takes a text apart. A text that is no MIME is one part without a type.
func (c *checker) parts(text string) []nodeconfig.Part {
	if !nodeconfig.IsMIME(text) {
		return []nodeconfig.Part{{Text: text}}
	}
	parts, problems := nodeconfig.ReadMIME(text)
	for _, p := range problems {
		c.fail(p.Line, p.Field, "%s", p.Text)
	}
	for _, p := range parts {
		if p.Media != "" && !slices.Contains(knownMedia(), p.Media) {
			c.warn(p.Line, "Content-Type", "nobody reads parts of the type %s; %s", p.Media, nearest(p.Media, knownMedia()))
		}
	}
	return parts
}

// hasPart says whether a text is MIME with a part of a type.
func hasPart(text, media string) bool {
	if !nodeconfig.IsMIME(text) {
		return false
	}
	parts, _ := nodeconfig.ReadMIME(text)
	return slices.ContainsFunc(parts, func(p nodeconfig.Part) bool { return p.Media == media })
}
