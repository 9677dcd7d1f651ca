package scrub

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// pattern is a kind of secret, or of what belongs to one machine. It stands on
// one line.
type pattern struct {
	kind string
	// hints are words in small letters of which a line has to hold one to be
	// matched at all: looking for a word costs little, an expression much.
	hints []string
	re    func() *regexp.Regexp
	// then is what has to follow a match, on further lines too; nil is anything.
	then func() *regexp.Regexp
	// sample is in matches that documentation is full of; nil is none.
	sample func() *regexp.Regexp
	// in says which files are searched; nil is all.
	in func(name string) bool
	// digit says that a match without one is a word of a manual or of a program.
	digit bool
}

// expression compiles when it is first used: only an audit searches.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// index finds which hints of many patterns a text holds in one pass over it: the
// patterns are many, and most files hold the hints of few.
type index struct {
	patterns []pattern
	// starting are the hints by their first two bytes.
	starting [1 << 16][]string
}

func newIndex(patterns []pattern) *index {
	x := &index{patterns: patterns}
	added := map[string]bool{}
	for _, p := range patterns {
		for _, hint := range p.hints {
			if len(hint) >= 2 && !added[hint] {
				added[hint] = true
				first := int(hint[0])<<8 | int(hint[1])
				x.starting[first] = append(x.starting[first], hint)
			}
		}
	}
	return x
}

// hinted are the patterns of which a text in small letters holds a hint. A hint
// of one byte is in every text.
func (x *index) hinted(small []byte) []pattern {
	held := map[string]bool{}
	for i := 1; i < len(small); i++ {
		for _, hint := range x.starting[int(small[i-1])<<8|int(small[i])] {
			if rest := small[i-1:]; len(rest) >= len(hint) && string(rest[:len(hint)]) == hint && !held[hint] {
				held[hint] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(x.patterns), func(p pattern) bool {
		return !slices.ContainsFunc(p.hints, func(hint string) bool { return len(hint) < 2 || held[hint] })
	})
}

// line is the number of the first line that holds the pattern, or 0. small is
// the text in small letters.
func (p pattern) line(text, small []byte) int {
	first, tries := -1, thenMost
	for _, hint := range p.hints {
		if at := p.find(text, small, hint, first, &tries); at >= 0 {
			first = at
		}
	}
	if first < 0 {
		return 0
	}
	return bytes.Count(text[:first], []byte("\n")) + 1
}

// find is where the first line that holds both hint and pattern begins, if that
// is before the limit, or -1; a limit below 0 is none.
func (p pattern) find(text, small []byte, hint string, limit int, tries *int) int {
	if limit < 0 {
		limit = len(text)
	}
	for from := 0; from < limit; {
		at := bytes.Index(small[from:limit], []byte(hint))
		if at < 0 {
			return -1
		}
		at += from
		begin := bytes.LastIndexByte(text[:at], '\n') + 1
		end := len(text)
		if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
			end = at + n
		}
		if p.matches(text[begin:end], text[end:], tries) {
			return begin
		}
		from = end + 1
	}
	return -1
}

// What follows a match is looked at this far, and in one file this many times: a
// file of nothing but such matches takes no longer than others.
const thenFar, thenMost = 4096, 1000

// matches says whether a line holds the pattern, and not an example.
func (p pattern) matches(line, rest []byte, tries *int) bool {
	line = bytes.TrimSuffix(line, []byte("\r"))
	return slices.ContainsFunc(p.re().FindAllIndex(line, -1), func(m []int) bool {
		match := line[m[0]:m[1]]
		switch {
		case p.digit && !bytes.ContainsAny(match, "0123456789"), p.sample != nil && p.sample().Match(match):
			return false
		case p.then == nil:
			return true
		case *tries == 0:
			return false
		}
		*tries--
		following := slices.Concat(line[m[1]:min(len(line), m[1]+thenFar)], rest[:min(len(rest), thenFar)])
		return p.then().Match(following)
	})
}

// lower is the text with ASCII's capitals made small, byte for byte: what is no
// valid UTF-8 keeps its length.
func lower(text []byte) []byte {
	small := make([]byte, len(text))
	for i, b := range text {
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		small[i] = b
	}
	return small
}

// named says whether a file's own name is one of these; wildcards as in
// path.Match.
func named(patterns ...string) func(string) bool {
	return func(name string) bool { return kept(patterns, path.Base(name)) }
}

// below says whether a file lies below one of these folders.
func below(folders ...string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(name, f+"/") })
	}
}

func either(a, b func(string) bool) func(string) bool {
	return func(name string) bool { return a(name) || b(name) }
}
