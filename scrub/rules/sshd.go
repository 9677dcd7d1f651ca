package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// sshdConfigs are the places of sshd's configuration: SUSE's package has its own
// file below /usr, which counts while /etc has none.
var sshdConfigs = []string{"/etc/ssh/sshd_config", "/usr/etc/ssh/sshd_config"}

// sshdSetting is one line of sshd's configuration.
type sshdSetting struct {
	keyword string // in lower case
	args    []string
	file    string
	line    int
	// block is 0 for a line outside of Match blocks, and the number of the block
	// otherwise.
	block int
}

// sshdConfig is sshd's configuration with all included files, in the order in
// which sshd reads the lines (sshd_config(5)).
type sshdConfig struct {
	settings []sshdSetting
	blocks   int
}

// includeMost is how deep files may include others, as in sshd.
const includeMost = 16

// readSSHD reads sshd's configuration. Without a file, the configuration is
// empty, and sshd's defaults apply.
func readSSHD(d *rule.Draft) *sshdConfig {
	c, own := &sshdConfig{}, &rule.Draft{Host: d.Host}
	for _, name := range sshdConfigs {
		if text := own.Content(name); text != nil {
			c.read(own, name, text, 0, 0)
			break
		}
	}
	if own.Err != nil {
		d.Failed(fmt.Errorf("reading sshd's configuration: %w", own.Err))
	}
	return c
}

// read adds the lines of a file. A Match block ends with the file.
func (c *sshdConfig) read(d *rule.Draft, name string, text []byte, block, depth int) {
	if depth > includeMost {
		d.Failed(fmt.Errorf("%s: files include each other more than %d times", name, includeMost))
		return
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		words := sshdWords(line)
		if len(words) == 0 {
			continue
		}
		s := sshdSetting{keyword: strings.ToLower(words[0]), args: words[1:], file: name, line: number, block: block}
		switch s.keyword {
		case "match":
			c.blocks++
			block = c.blocks
		case "include":
			c.include(d, s.args, block, depth+1)
		default:
			c.settings = append(c.settings, s)
		}
	}
}

// include adds the files of an Include line. Like sshd, it leaves out files that
// do not exist.
func (c *sshdConfig) include(d *rule.Draft, patterns []string, block, depth int) {
	for _, p := range patterns {
		if !path.IsAbs(p) {
			p = path.Join("/etc/ssh", p)
		}
		d.Texts(d.Glob(p), func(name string, text []byte) { c.read(d, name, text, block, depth) })
	}
}

// effective returns the settings of a keyword that count for somebody: the first
// outside of Match blocks, and the first in each block. sshd ignores the others.
func (c *sshdConfig) effective(keyword string) []sshdSetting {
	var found []sshdSetting
	for _, s := range c.settings {
		if s.keyword == keyword && len(s.args) > 0 &&
			!slices.ContainsFunc(found, func(f sshdSetting) bool { return f.block == s.block }) {
			found = append(found, s)
		}
	}
	return found
}

// all returns every setting of a keyword whose lines add up, such as HostKey.
func (c *sshdConfig) all(keyword string) []sshdSetting {
	return slices.DeleteFunc(slices.Clone(c.settings),
		func(s sshdSetting) bool { return s.keyword != keyword || len(s.args) == 0 })
}

// sshdWords splits a line of sshd's configuration into its keyword and
// arguments. An equals sign may follow the keyword; quotes keep spaces.
func sshdWords(line string) []string {
	line = strings.TrimSpace(line)
	end := strings.IndexAny(line, " \t=\f\"")
	if line == "" || line[0] == '#' || end == 0 {
		return nil
	}
	if end < 0 {
		return []string{line}
	}
	words := []string{line[:end]}
	rest := strings.TrimLeft(line[end:], " \t\f")
	if after, ok := strings.CutPrefix(rest, "="); ok {
		rest = after
	}
	var word strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(rest); i++ {
		switch b := rest[i]; {
		case b == '\\' && i+1 < len(rest) && strings.IndexByte(`\"' `, rest[i+1]) >= 0 &&
			(quote == 0 || rest[i+1] != ' '):
			i++
			word.WriteByte(rest[i])
			in = true
		case quote != 0 && b == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(b)
		case b == '"' || b == '\'':
			in, quote = true, b
		case b == ' ' || b == '\t':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		case b == '#' && !in:
			return words
		default:
			in = true
			word.WriteByte(b)
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words
}
