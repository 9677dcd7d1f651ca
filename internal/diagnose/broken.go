package diagnose

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// broken joins lines that a terminal or a web form broke.
type broken struct {
	before string // what precedes in the same line, or the line before
	last   int    // length of the last part
}

const (
	// wrapsFrom is how long a line is at least that a terminal breaks, in bytes.
	wrapsFrom = 60
	// wrapsMost is how much of the parts before is kept, in bytes.
	wrapsMost = 1000
	// beginMost is where in a line the time stands that begins it, in bytes.
	beginMost = 40
)

// join returns what precedes a line if the line may be the rest of a broken one.
func (w *broken) join(line string) (before string) {
	if w.last >= wrapsFrom && !opens(line) {
		before = w.before
	}
	w.before, w.last = before+line[max(0, len(line)-wrapsMost):], len(line)
	w.before = w.before[max(0, len(w.before)-wrapsMost):]
	return before
}

// opens says whether a line looks like the first part of one.
func opens(line string) bool {
	switch {
	case line == "" || hasClock(line[:min(len(line), beginMost)]):
		return true
	case strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t"): // columns
		return true
	default:
		return strings.ContainsRune("{[<-+#*", rune(line[0]))
	}
}

// matchBroken adds a broken line to the findings of the rules whose patterns match
// across the break. It returns whether the line is that of such a rule.
func (r *reading) matchBroken(before string, l seen, place func() string) (known bool) {
	whole := r.s.across(before, l)
	for _, h := range whole.hits {
		f := &r.now.found[h.rule]
		f.add(func() string { return place() + shorten(before+h.space+l.line[:min(len(l.line), wrapsMost)], h.at) })
		if whole.follows {
			f.weaker++
		} else {
			f.proven = true
		}
	}
	return whole.known
}

// across is the template of a line and what precedes in the same one. Its hits are those of
// rules whose patterns match across the break.
func (s *Search) across(before string, l seen) *template {
	s.key = appendConstant(append(appendConstant(s.key[:0], before), '\n'), l.line)
	return s.kept(s.key, func() *template {
		t := &template{cause: -1, follows: followers().find(before+l.line) != nil}
		if l.class != "" {
			t.cause = about(before+l.line, l.class, len(before)+l.at).fact().causeOf()
		}
		for _, space := range []string{"", " "} {
			whole, done := before+space+l.line[:min(len(l.line), wrapsMost)], -1
			s.places, _ = candidates().read(whole, s.places)
			for _, at := range s.places {
				c := candidates().list[at]
				if c.rule <= done || !s.isEvidence(c, whole) {
					continue
				}
				if found := c.re().FindStringIndex(whole); found[0] < len(before) && found[1] > len(before)+len(space) {
					done, t.known = c.rule, t.known || !s.rules[c.rule].Otherwise
					t.hits = append(t.hits, hit{rule: c.rule, at: found[0], space: space})
				}
			}
		}
		return t
	})
}

// Archives of logs also have configuration, documentation and the output of commands.
// Such files contain the words of causes without being evidence.

// isNotLog says whether a file in a folder or an archive is no log.
func isNotLog(name string, head []byte) bool {
	name = strings.ToLower(strings.ReplaceAll(name, `\`, "/"))
	parts := strings.Split(path.Dir(name), "/")
	base := path.Base(name)
	switch {
	case slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(words().NoLogs.Folders, part) }):
		return true
	case strings.Contains("/"+name, "/var/lib/cloud/"):
		return true
	case slices.ContainsFunc(words().NoLogs.Ends, func(end string) bool { return strings.HasSuffix(base, end) }):
		return true
	case path.Ext(base) == ".json":
		return !slices.ContainsFunc(wrappers,
			func(key string) bool { return bytes.Contains(head, []byte(`"`+key+`"`)) })
	}
	return slices.Contains(words().NoLogs.Extensions, path.Ext(base))
}
