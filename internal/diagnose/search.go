package diagnose

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Search searches logs one by one for the lines of every rule.
type Search struct {
	ctx      context.Context
	rules    []Rule
	patterns []pattern
	found    []Finding
	over     []bool // a log has matched Until

	errors []string
	kinds  map[string]bool // of errors, so that one of each kind is kept
	first  *Failure
	joined []string // lines of a node that joined
	signs  map[*expression]bool
	lines  int
	passed []string

	texts  int   // number of logs
	budget int64 // how many more bytes archives may expand to
}

// expandMost bounds the expanded content of compressed files and archives, in
// bytes.
const expandMost = 1 << 30

// NewSearch makes a search. It stops when ctx ends.
func NewSearch(ctx context.Context) *Search {
	rules := Rules()
	return &Search{
		ctx: ctx, rules: rules, patterns: patterns(), found: make([]Finding, len(rules)), over: make([]bool, len(rules)),
		kinds: map[string]bool{}, signs: map[*expression]bool{}, budget: expandMost,
	}
}

// Report is the result of a search.
type Report struct {
	// Findings come in the table's order, consequences last.
	Findings []Finding
	// Joined are lines that only a node that joined has, with their places.
	Joined []string
	// First is the first failure in order of time, or nil. Within a log, the order is
	// that of its lines.
	First *Failure
	// Errors are the first lines that look like errors, one of each kind, with
	// their places.
	Errors []string
	// Lines is the number of lines.
	Lines int
	// PassedOver are the files of folders and archives that are not text.
	PassedOver []string
}

// Report returns the result so far.
func (s *Search) Report() Report {
	r := Report{Joined: s.joined, First: s.first, Errors: s.errors, Lines: s.lines, PassedOver: s.passed}
	for i, f := range s.found {
		if f.Count > 0 {
			f.Rule = s.rules[i]
			r.Findings = append(r.Findings, f)
		}
	}
	if slices.ContainsFunc(r.Findings, func(f Finding) bool { return !f.Rule.Otherwise }) {
		r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Rule.Otherwise })
	}
	r.Findings = order(r.Findings)
	for i := range r.Findings {
		r.Findings[i].weigh(len(r.Joined) > 0)
	}
	return r
}

// Log searches one text. A line that resolves a rule also resolves its findings in
// earlier logs, except in logs that have such a line of their own.
func (s *Search) Log(l Log) error {
	s.texts++
	here, ended := make([]Finding, len(s.rules)), make([]bool, len(s.rules))
	var places []int
	var parts broken
	failed, timed := false, "" // the last line with a time
	err := s.eachLine(l.Text, func(number int, line string, about journalEntry) {
		place := func() string { return fmt.Sprintf("%s:%d: ", l.Name, number) }
		if (!failed || len(s.errors) < errorsMost) && looksBad(line) {
			if !failed {
				failed = true
				s.keepFirst(l.Name, place()+shorten(line, 0), line, timed, about)
			}
			s.keepError(place, line)
		} else if !failed && hasClock(line) {
			timed = line
		}
		s.keepSign(place, line)
		places = candidates().in(line, places)
		s.match(line, places, here, ended, place)
		if before := parts.join(line); before != "" {
			places = s.matchBroken(before, line, places, here, place)
		}
	})
	for i := range s.rules {
		switch {
		case ended[i] && !s.over[i]:
			s.found[i], s.over[i] = here[i], true
		case ended[i] || !s.over[i]:
			s.found[i].join(here[i])
		}
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", l.Name, err)
	}
	return nil
}

// match adds a line to the findings of the rules that it matches, and ends those that
// it resolves.
func (s *Search) match(line string, places []int, here []Finding, ended []bool, place func() string) {
	done := -1 // the last rule with this line
	for _, at := range places {
		switch c := candidates().list[at]; {
		case c.rule < 0 && c.MatchString(line):
			for i, p := range s.patterns {
				if p.until == c.until {
					here[i], ended[i] = Finding{}, true
				}
			}
		case c.rule > done && s.isEvidence(c, line):
			done = c.rule
			if f := &here[c.rule]; f.Count < most {
				f.add(place() + shorten(line, c.FindStringIndex(line)[0]))
			} else {
				f.Count++
			}
		}
	}
}

// isEvidence says whether a line is evidence for a candidate's rule. A line that
// resolves a rule is none.
func (s *Search) isEvidence(c candidate, line string) bool {
	p := s.patterns[c.rule]
	return c.MatchString(line) && p.not.find(line) == nil && (p.until < 0 || untils()[p.until].find(line) == nil)
}

// errorsMost is how many lines that look like errors are kept.
const errorsMost = 10

// errorParts are texts: every line that looks like an error contains at least one.
// Searching for them costs a small part of what the expressions cost.
var errorParts = []string{
	"rror", "RROR", "err=", "ail", "AIL", "atal", "ATAL", "anic", "ANIC", "enied", "efused", "authorized", "orbidden", "imed out", "imeout", "annot",
	"an't", "nable to", "o such",
}

var (
	// level matches the level of a line from klog, logrus or zap, and from programs
	// that write it in brackets.
	level = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[ \]])([EFIW])\d{4} \d\d:\d\d:\d\d|\blevel"?[=:] ?"?(\w+)|\[(DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL)\]`)
	})
	errorWords = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b(error|failed|failure|fatal|panic|denied|refused|unauthorized|forbidden|timed out|timeout|cannot|can't|unable to|no such)\b`)
	})
	// varying matches the parts that differ between lines of one kind.
	varying = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f]*`) })
	// signs matches the lines that only a node that joined has.
	signs = sync.OnceValue(func() expressions {
		return compile(joined, ready, `status is now: NodeReady`, `Successfully copied CNI plugin binary and config file`)
	})
)

// bad are the levels of errors. Cloud-init writes WARNING about modules that failed.
var bad = []string{"E", "F", "error", "fatal", "panic", "dpanic", "ERROR", "CRITICAL", "WARNING"}

// looksBad says whether a line looks like an error.
func looksBad(line string) bool {
	line = line[:min(len(line), longest)]
	if !klogError(line) && !slices.ContainsFunc(errorParts, func(part string) bool { return strings.Contains(line, part) }) {
		return false
	}
	if m := level().FindStringSubmatch(line); m != nil {
		return slices.Contains(bad, m[1]+m[2]+m[3])
	}
	return errorWords().MatchString(line)
}

// klogError says whether a line, or what follows its syslog prefix, has the form of
// klog's errors. Their texts need no word for errors.
func klogError(line string) bool {
	if i := strings.Index(line, "]: "); i >= 0 {
		line = line[i+3:]
	}
	return len(line) > 5 && (line[0] == 'E' || line[0] == 'F') && isDigit(line[1]) && isDigit(line[4]) && line[5] == ' '
}

// keepError keeps a line that looks like an error, unless a similar line is kept
// already.
func (s *Search) keepError(place func() string, line string) {
	kind := varying().ReplaceAllString(line[:min(len(line), longest)], "0")
	if len(s.errors) < errorsMost && !s.kinds[kind] {
		s.kinds[kind] = true
		s.errors = append(s.errors, place()+shorten(line, 0))
	}
}

// keepSign keeps the first line of each kind that shows that the node joined.
func (s *Search) keepSign(place func() string, line string) {
	if e := signs().find(line); e != nil && !s.signs[e] {
		s.signs[e] = true
		s.joined = append(s.joined, place()+shorten(line, e.FindStringIndex(line)[0]))
	}
}
