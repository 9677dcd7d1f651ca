package scrub

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// pattern is a kind of secret, or a text that belongs to one machine. It
// matches within one line.
type pattern struct {
	kind string
	// hints are words in lower case. An expression runs only on lines with one
	// of its hints, because searching for a word is much faster. A hint of a
	// pattern that applies to programs ends with a space, which is no part of the
	// word: else the hint and the constant behind it look like a token, in eksnode.
	hints []string
	re    func() *regexp.Regexp
	// then must match the text after the match, also on further lines; nil
	// matches any text.
	then func() *regexp.Regexp
	// sample matches examples from documentation, which are no secrets; nil for
	// none.
	sample func() *regexp.Regexp
	// in selects the files that are searched; nil selects all.
	in func(name string) bool
	// digit says that a match without a digit is a word of a manual or of a
	// program.
	digit bool
	// run is how many letters, digits, hyphens and underscores follow a hint at
	// least: a test that is much faster than the expression.
	run int
	// value is the first group of the expression that may have the secret, which
	// must be plausible; 0 for none.
	value int
	// text says that a match means something only in a text or a database. In
	// other files, such as programs, it is a coincidence.
	text bool
	// general says that the pattern goes by a name alone. Of a line with another
	// match, that one is reported.
	general bool
	// loose is re without the ends of words, for databases: they store values
	// side by side.
	loose func() *regexp.Regexp
}

// expression compiles an expression when it is first used, because only an
// audit searches.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// index finds the hints of many patterns in one pass over a text: there are
// many patterns, and most files contain few of their hints.
type index struct {
	patterns []pattern
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

// next adds a byte to a start.
func (x *index) next(start uint32, b byte) uint32 {
	return (start<<6 | uint32(x.classes[b])) & (starts - 1)
}

func newIndex(patterns []pattern) *index {
	x := &index{patterns: patterns, hints: [][]hint{nil}}
	for i, b := range []byte("abcdefghijklmnopqrstuvwxyz0123456789-_.:/|=<>$+%,;~{\"'(@*&!#") {
		x.classes[b] = uint8(i + 1)
		if 'a' <= b && b <= 'z' {
			x.classes[b-'a'+'A'] = uint8(i + 1)
		}
	}
	users, words := map[string][]int{}, []string(nil)
	for n := range x.patterns {
		p := &x.patterns[n]
		if p.re != nil && len(p.hints) == 0 {
			x.every = append(x.every, n)
		}
		if p.re != nil {
			p.loose = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(strings.ReplaceAll(p.re().String(), `\b`, "")) })
		}
		for _, word := range p.hints {
			word = strings.TrimSuffix(word, " ")
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
func (x *index) startsOf(word string) []uint32 {
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

// begins reports whether a text begins with a word in lower case.
func begins(text []byte, word string) bool {
	if len(text) < len(word) {
		return false
	}
	for i := range len(word) {
		b := text[i]
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		if b != word[i] {
			return false
		}
	}
	return true
}

// isToken reports whether a byte is usual in tokens.
func isToken(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_'
}

// runs reports whether at least that many bytes of a token begin a text.
func runs(text []byte, least int) bool {
	if len(text) < least {
		return false
	}
	for _, b := range text[:least] {
		if !isToken(b) {
			return false
		}
	}
	return true
}

// Limits for checking the text after matches: how far, and how often in one
// file. They keep the time bounded for a file that consists of matches.
const thenFar, thenMost = 4096, 1000

// matches reports whether a line matches an expression of the pattern and is no example. text
// has the line from begin to end. A match at the begin counts only if the line
// is whole there.
func (p *pattern) matches(re *regexp.Regexp, text []byte, begin, end int, whole bool, tries *int) bool {
	line := bytes.TrimSuffix(text[begin:end], []byte("\r"))
	for _, m := range re.FindAllSubmatchIndex(line, -1) {
		match := line[m[0]:m[1]]
		switch {
		case m[0] == 0 && !whole, p.digit && !bytes.ContainsAny(match, "0123456789"), p.sample != nil && p.sample().Match(match):
			continue
		case p.value > 0 && !plausible(submatch(line, m, p.value)):
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

// named reports whether the base name of a file matches one of these patterns
// of path.Match.
func named(patterns ...string) func(string) bool {
	return func(name string) bool { return kept(patterns, path.Base(name)) }
}

// below reports whether a file is below one of these folders.
func below(folders ...string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(name, f+"/") })
	}
}

func either(a, b func(string) bool) func(string) bool {
	return func(name string) bool { return a(name) || b(name) }
}
