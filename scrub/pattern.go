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
	// of its hints, because searching for a word is much faster.
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
	// starting has the hints by their first two bytes.
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

// hinted returns the patterns with a hint in a text in lower case. A hint of
// one byte counts as part of every text.
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

// line returns the number of the first line that matches the pattern, or 0.
// small is the text in lower case.
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

// find returns where the first line with both hint and match begins, if that is
// before the limit, or -1. A negative limit means no limit.
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

// Limits for checking the text after matches: how far, and how often in one
// file. They keep the time bounded for a file that consists of matches.
const thenFar, thenMost = 4096, 1000

// matches reports whether a line matches the pattern and is no example.
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

// lower returns the text with ASCII letters in lower case, byte for byte, so
// that invalid UTF-8 keeps its length.
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
