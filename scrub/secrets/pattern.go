package secrets

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// Pattern is a kind of secret, or a text that belongs to one machine. It
// matches within one line.
type Pattern struct {
	Kind string `yaml:"kind"`
	// Hints are words in lower case. An expression runs only on lines with one
	// of its hints, because searching for a word is much faster.
	Hints []string `yaml:"hints"`
	Re    func() *regexp.Regexp
	// then must match the text after the match, also on further lines; nil
	// matches any text.
	then func() *regexp.Regexp
	// sample matches examples from documentation, which are no secrets; nil for
	// none.
	sample func() *regexp.Regexp
	// in selects the files that are searched; nil selects all.
	in func(name string) bool
	// Digit says that a match without a digit is a word of a manual or of a
	// program.
	Digit bool `yaml:"digit"`
	// Run is how many letters, digits, hyphens and underscores follow a hint at
	// least: a test that is much faster than the expression.
	Run int `yaml:"run"`
	// Signs are characters: one of them follows a hint in its line. Empty means no
	// such test.
	Signs string `yaml:"signs"`
	// Value is the first group of the expression that may have the secret, which
	// must be plausible; 0 for none.
	Value int `yaml:"value"`
	// Text says that a match means something only in a text or a database. In
	// other files, such as programs, it is a coincidence.
	Text bool `yaml:"text"`
	// General says that the pattern goes by a name alone. Of a line with another
	// match, that one is reported.
	General bool `yaml:"general"`
	// loose is Re without the ends of words, for databases: they store values
	// side by side.
	loose func() *regexp.Regexp
}

// Index finds the hints of many patterns in one pass over a text: there are
// many patterns, and most files contain few of their hints.
type Index struct {
	patterns []Pattern
	// every are the patterns without hints, which see every line of the files that
	// they select.
	every []int
	// bits has a bit for each start of a hint, and starts the number of its hints.
	bits   [starts / 64]uint64
	starts [starts]uint16
	hints  [][]hint
	// classes are those of bytes: letters in any case, digits, and signs. Every
	// other byte has the class 0.
	classes [256]uint8
}

// A start is three bytes of a text, by their classes of six bits.
const starts = 1 << 18

// hint is a word in lower case with its patterns.
type hint struct {
	word     string
	patterns []int
}

func (x *Index) next(start uint32, b byte) uint32 {
	return (start<<6 | uint32(x.classes[b])) & (starts - 1)
}

// NewIndex returns an index of patterns.
func NewIndex(patterns []Pattern) *Index {
	x := &Index{patterns: patterns, hints: [][]hint{nil}}
	for i, b := range []byte("abcdefghijklmnopqrstuvwxyz0123456789-_.:/|=<>$+%,;~{\"'(@*&!#") {
		x.classes[b] = uint8(i + 1)
		if 'a' <= b && b <= 'z' {
			x.classes[b-'a'+'A'] = uint8(i + 1)
		}
	}
	users, words := map[string][]int{}, []string(nil)
	for n := range x.patterns {
		p := &x.patterns[n]
		if p.Re != nil && len(p.Hints) == 0 {
			x.every = append(x.every, n)
		}
		if p.Re != nil {
			p.loose = sync.OnceValue(func() *regexp.Regexp {
				return regexp.MustCompile(strings.ReplaceAll(p.Re().String(), `\b`, ""))
			})
		}
		for _, word := range p.Hints {
			if users[word] == nil {
				words = append(words, word)
			}
			users[word] = append(users[word], n)
		}
	}
	for _, word := range words {
		for _, start := range x.startsOf(word) {
			if x.starts[start] == 0 {
				x.starts[start] = uint16(len(x.hints))
				x.hints = append(x.hints, nil)
			}
			x.bits[start/64] |= 1 << (start % 64)
			list := &x.hints[x.starts[start]]
			*list = append(*list, hint{word, users[word]})
		}
	}
	return x
}

// startsOf are the starts of a word. A word of fewer than three bytes may go on
// with any byte.
func (x *Index) startsOf(word string) []uint32 {
	found := []uint32{0}
	for n := range 3 {
		var longer []uint32
		for _, start := range found {
			if n < len(word) {
				longer = append(longer, x.next(start, word[n]))
				continue
			}
			for class := range uint32(64) {
				longer = append(longer, (start<<6|class)&(starts-1))
			}
		}
		found = longer
	}
	return found
}

func begins(text []byte, word string) bool {
	return len(text) >= len(word) && strings.EqualFold(string(text[:len(word)]), word)
}

func isToken(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_'
}

// runs reports whether at least that many bytes of a token begin a text.
func runs(text []byte, least int) bool {
	return len(text) >= least && !slices.ContainsFunc(text[:least], func(b byte) bool { return !isToken(b) })
}

// Limits for checking the text after matches: how far, and how often in one
// file. They keep the time bounded for a file that consists of matches.
const thenFar, thenMost = 4096, 1000

// matches reports whether a line matches an expression of the pattern and is no example. text
// has the line from begin to end. A match at the begin counts only if the line
// is whole there.
func (p *Pattern) matches(re *regexp.Regexp, text []byte, begin, end int, whole bool, tries *int) bool {
	line := bytes.TrimSuffix(text[begin:end], []byte("\r"))
	for _, m := range re.FindAllSubmatchIndex(line, -1) {
		match := line[m[0]:m[1]]
		switch {
		case m[0] == 0 && !whole, p.Digit && !bytes.ContainsAny(match, "0123456789"),
			p.sample != nil && p.sample().Match(match):
			continue
		case p.Value > 0 && !plausible(submatch(line, m, p.Value)):
			continue
		case p.then == nil:
			return true
		case *tries == 0:
			return false
		}
		*tries--
		from := begin + m[1]
		if p.then().Match(text[from:min(len(text), from+thenFar)]) {
			return true
		}
	}
	return false
}

// submatch is the text of the first group that took part in a match, from the
// group with this number.
func submatch(line []byte, m []int, group int) string {
	for i := 2 * group; i+1 < len(m); i += 2 {
		if m[i] >= 0 {
			return string(line[m[i]:m[i+1]])
		}
	}
	return ""
}

func below(folders ...string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(name, f+"/") })
	}
}

// sources are the ends of files that are programs or samples. There, a name
// before a value is often a variable or an explanation.
var sources = []string{
	"py", "pyc", "js", "mjs", "cjs", "ts", "go", "c", "h", "cc", "cpp", "hpp", "rs", "java", "rb", "pl", "pm", "lua",
	"css", "html", "htm", "svg", "md", "rst", "po", "pot",
	"tmpl", "tpl", "j2", "erb", "example", "sample", "dist", "template", "map", "vim", "el", "awk", "tcl", "proto",
	"scm", "tex", "adoc", "log", "te", "schema", "rules", "csv",
}

// settings selects files that may be configuration.
func settings(name string) bool {
	end := strings.TrimPrefix(path.Ext(name), ".")
	return !slices.Contains(sources, strings.ToLower(end)) && !strings.HasSuffix(name, ".schema.json")
}

func noSamples(name string) bool {
	return !rule.Kept([]string{
		"*.example", "*.sample", "*.dist", "*.tmpl", "*.tpl", "*.j2", "*.md", "*.rst", "*.html", "*.po", "*-example.*",
		"*.example.*", "*.sample.*",
	}, path.Base(name))
}

// placeholders are parts of values that are explanations, variables or
// references to a place with the secret.
var placeholders = []string{
	"example", "placeholder", "changeme", "change_me", "change-me", "redacted", "your-", "your_", "yourpass",
	"yoursecret", "yourtoken", "xxxx", "****", "....", "____", "dummy",
	"${", "$(", "{{", "}}", "<%", "%>", "()", "->", "::", "arn:aws", "secretsmanager", "vault:", "op://", "enc[",
	"file:", "env:", "ssm:",
}

// words are values that are no secrets.
var words = []string{
	"password", "passwd", "passphrase", "secret", "token", "string", "value", "required", "optional", "disabled",
	"enabled", "undefined", "default", "prompt", "stdin", "invalid", "expired",
	"false", "never", "always", "integer", "boolean", "object", "number", "sufficient", "requisite", "include", "unset",
	"empty", "hashed", "plain", "plaintext", "files", "service", "systemd", "yescrypt",
	"sha512", "sha256", "bcrypt", "pam_unix.so", "username", "unknown", "mypassword", "nopassword", "no-password",
	"define", "undef", "validate", "scram-sha-256", "peer", "trust", "opaque",
	"legacycfg", "password_pbkdf2", // GRUB's command.lst
}

// roots begin the names of variables in several languages.
var roots = []string{
	"var", "local", "module", "data", "each", "self", "this", "config", "settings", "env", "process", "os", "secrets",
	"steps", "inputs", "vars", "values", "params", "args", "options", "request", "node", "ansible",
}

// plausible reports whether a value may be a secret: no variable, no path, no
// word of a manual.
func plausible(value string) bool {
	small := strings.ToLower(strings.TrimRight(value, ".,;)]}>\\"))
	if len(small) < 3 || strings.ContainsAny(small[:1], "$%<{(/~@*&|!\\`=[>") && !strings.HasPrefix(small, "!!") {
		return false
	}
	if strings.Trim(small, small[:1]) == "" || slices.Contains(words, small) {
		return false
	}
	if strings.ContainsRune(small, ' ') && !strings.ContainsAny(small, "0123456789") {
		return false
	}
	if strings.HasPrefix(small, "./") || strings.HasPrefix(small, "../") ||
		strings.HasPrefix(small, "-") && !strings.ContainsAny(small, "0123456789") {
		return false
	}
	explains := func(part string) bool { return strings.Contains(small, part) }
	return !isReference(small) && !slices.ContainsFunc(placeholders, explains)
}

// isReference reports whether a value names another place: a file, an address,
// or a field of a program.
func isReference(small string) bool {
	if strings.HasPrefix(small, "http") && strings.Contains(small, "://") ||
		strings.Contains(small, "[") && strings.HasSuffix(small, "]") {
		return true
	}
	if rule.Kept([]string{
		"*.pem", "*.key", "*.crt", "*.json", "*.yaml", "*.yml", "*.conf", "*.txt", "*.so", "*.service", "*.sh", "*.py",
	}, path.Base(small)) {
		return true
	}
	before, after, dotted := strings.Cut(small, ".")
	if dotted && slices.Contains(roots, before) {
		return true
	}
	if !dotted || strings.ContainsAny(small, "0123456789!@#%^*+=/") {
		return false
	}
	return before != "" && after != "" // var.password, self.token
}
