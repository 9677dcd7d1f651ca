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

// Search looks for every rule's lines, log by log.
type Search struct {
	ctx      context.Context
	rules    []Rule
	patterns []pattern
	found    []Finding
	over     []bool // some log has said so

	errors []string
	kinds  map[string]bool // of errors, so that each is kept once
	lines  int
	passed []string

	texts  int   // how many logs were read
	budget int64 // how many bytes may still come out of archives
}

// expandMost bounds what comes out of compressed files and archives, in bytes.
const expandMost = 1 << 30

// NewSearch begins a search; it stops when ctx ends.
func NewSearch(ctx context.Context) *Search {
	rules := Rules()
	return &Search{
		ctx: ctx, rules: rules, patterns: patterns(), found: make([]Finding, len(rules)), over: make([]bool, len(rules)),
		kinds: map[string]bool{}, budget: expandMost,
	}
}

// Report is what a search has found.
type Report struct {
	// Findings come in the table's order, those that follow from another one last.
	Findings []Finding
	// Errors are the first lines that look like errors, one of a kind, with where
	// they were found.
	Errors []string
	// Lines is how many lines were read.
	Lines int
	// PassedOver are files of folders and archives that are no text.
	PassedOver []string
}

// Report says what was found so far.
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

// Log looks through one text. What it says to be over is over in the logs before
// it, and not in those that do not say so.
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

// errorParts are in every line that looks like an error. Looking for them costs
// a small part of what the expressions do.
var errorParts = []string{
	"rror", "RROR", "err=", "ail", "AIL", "atal", "ATAL", "anic", "ANIC", "enied", "efused", "authorized", "orbidden", "imed out", "imeout", "annot",
	"an't", "nable to", "o such",
}

var (
	// level is what klog and logrus say about a line of theirs.
	level = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[ \]])([EFIW])\d{4} \d\d:\d\d:\d\d|\blevel="?(\w+)`)
	})
	errorWords = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b(error|failed|failure|fatal|panic|denied|refused|unauthorized|forbidden|timed out|timeout|cannot|can't|unable to|no such)\b`)
	})
	// varying is what differs between lines of one kind.
	varying = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f]*`) })
)

// keepError keeps a line that looks like an error, unless there was one like it.
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
