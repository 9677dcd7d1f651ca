package diagnose

import (
	"context"
	"fmt"
	"io"
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
		kinds: map[string]bool{}, budget: expandMost,
	}
}

// Report is the result of a search.
type Report struct {
	// Findings come in the table's order, consequences last.
	Findings []Finding
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
	r := Report{Errors: s.errors, Lines: s.lines, PassedOver: s.passed}
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
	return r
}

// Log searches one text. A line that resolves a rule also resolves its findings in
// earlier logs, except in logs that have such a line of their own.
func (s *Search) Log(l Log) error {
	s.texts++
	here, ended := make([]Finding, len(s.rules)), make([]bool, len(s.rules))
	err := s.eachLine(l.Text, func(number int, line string) {
		place := func() string { return fmt.Sprintf("%s:%d: ", l.Name, number) }
		s.keepError(place, line)
		for i, p := range s.patterns {
			if p.until.find(line) != nil {
				here[i], ended[i] = Finding{}, true
			} else if e := p.find(line); e != nil {
				here[i].add(place() + shorten(line, e.FindStringIndex(line)[0]))
			}
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

// errorsMost is how many lines that look like errors are kept.
const errorsMost = 10

// errorParts are texts: every line that looks like an error contains at least one.
// Searching for them costs a small part of what the expressions cost.
var errorParts = []string{
	"rror", "RROR", "err=", "ail", "AIL", "atal", "ATAL", "anic", "ANIC", "enied", "efused", "authorized", "orbidden", "imed out", "imeout", "annot",
	"an't", "nable to", "o such",
}

var (
	// level matches the level of a line from klog or logrus.
	level = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[ \]])([EFIW])\d{4} \d\d:\d\d:\d\d|\blevel="?(\w+)`)
	})
	errorWords = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b(error|failed|failure|fatal|panic|denied|refused|unauthorized|forbidden|timed out|timeout|cannot|can't|unable to|no such)\b`)
	})
	// varying matches the parts that differ between lines of one kind.
	varying = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f]*`) })
)

// keepError keeps a line that looks like an error, unless a similar line is kept
// already.
func (s *Search) keepError(place func() string, line string) {
	line = line[:min(len(line), longest)]
	if len(s.errors) == errorsMost || !slices.ContainsFunc(errorParts, func(part string) bool { return strings.Contains(line, part) }) {
		return
	}
	if m := level().FindStringSubmatch(line); m != nil {
		if !slices.Contains([]string{"E", "F", "error", "fatal", "panic"}, m[1]+m[2]) {
			return
		}
	} else if !errorWords().MatchString(line) {
		return
	}
	if kind := varying().ReplaceAllString(line, "0"); !s.kinds[kind] {
		s.kinds[kind] = true
		s.errors = append(s.errors, place()+shorten(line, 0))
	}
}

// Print writes a report for a person.
func (r Report) Print(w io.Writer) error {
	if err := Print(w, r.Findings); err != nil || len(r.Findings) > 0 {
		return err
	}
	var b strings.Builder
	if len(r.Errors) > 0 {
		b.WriteString("the first lines that look like errors:\n")
	} else {
		fmt.Fprintf(&b, "none of the %d lines looks like an error\n", r.Lines)
	}
	for _, line := range r.Errors {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	if len(r.PassedOver) > 0 {
		names := r.PassedOver[:min(len(r.PassedOver), errorsMost)]
		fmt.Fprintf(&b, "not read, because they are not text (%d files): %s\n", len(r.PassedOver), strings.Join(names, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
