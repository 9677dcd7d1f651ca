// Package diagnose says why a node did not join: it looks for known causes in
// what the kubelet, containerd and the first boot said, and shows the lines
// that prove each and what to do about it.
package diagnose

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Rule is one known cause.
type Rule struct {
	// ID names the rule in output, tests and documentation.
	ID string
	// Cause says what is wrong, and Remedy what to do, each in a sentence.
	Cause, Remedy string
	// Lines match what the programs say about it; any of them.
	Lines []string
	// Not excludes lines; empty excludes none.
	Not string
	// Until matches what a log says when the matter is over: whatever was found
	// before that, and in other logs, was of the start. Empty is never.
	Until string
	// Explains are rules whose findings follow from this one.
	Explains []string
	// Otherwise marks what says where to look further: it is told only where
	// nothing else was found.
	Otherwise bool
}

// Finding is a rule that found something.
type Finding struct {
	Rule Rule
	// Evidence are the first lines that prove it, with where they were found.
	Evidence []string
	// Count is how many lines there were.
	Count int
	// Follows names the finding that this one is a consequence of.
	Follows string
}

// most is how many lines of evidence are kept for each finding: the first show
// how it began.
const most = 3

// longest is how much of a line is shown, in bytes; the kubelet's events have
// thousands.
const longest = 320

// Log is a named text: a unit's journal or a file.
type Log struct {
	Name string
	Text io.Reader
}

// Logs looks for every rule's lines. Findings come in the table's order, those
// that follow from another one last.
func Logs(logs ...Log) ([]Finding, error) {
	rules := Rules()
	patterns := make([]pattern, len(rules))
	for i, r := range rules {
		patterns[i] = r.compile()
	}
	found := make([]Finding, len(rules))
	over := make([]bool, len(rules)) // some log has said so
	var errs []error
	for _, l := range logs {
		here, ended, err := l.search(patterns)
		errs = append(errs, err)
		for i := range rules {
			switch {
			case ended[i] && !over[i]:
				found[i], over[i] = here[i], true
			case ended[i] || !over[i]:
				found[i].join(here[i])
			}
		}
	}
	var list []Finding
	for i, f := range found {
		if f.Count > 0 {
			f.Rule = rules[i]
			list = append(list, f)
		}
	}
	if slices.ContainsFunc(list, func(f Finding) bool { return !f.Rule.Otherwise }) {
		list = slices.DeleteFunc(list, func(f Finding) bool { return f.Rule.Otherwise })
	}
	return order(list), errors.Join(errs...)
}

// search looks for patterns in one log. Those that ended found nothing but what
// came after that.
func (l Log) search(patterns []pattern) (found []Finding, ended []bool, err error) {
	found, ended = make([]Finding, len(patterns)), make([]bool, len(patterns))
	s := bufio.NewScanner(l.Text)
	s.Buffer(make([]byte, 64<<10), 4<<20)
	for number := 1; s.Scan(); number++ {
		line := s.Text()
		for i, p := range patterns {
			if p.until.find(line) != nil {
				found[i], ended[i] = Finding{}, true
			} else if e := p.find(line); e != nil {
				found[i].add(fmt.Sprintf("%s:%d: %s", l.Name, number, shorten(line, e)))
			}
		}
	}
	if err := s.Err(); err != nil {
		return found, ended, fmt.Errorf("reading %s: %w", l.Name, err)
	}
	return found, ended, nil
}

func (f *Finding) add(line string) {
	f.Count++
	if len(f.Evidence) < most {
		f.Evidence = append(f.Evidence, line)
	}
}

// join adds what was found in another log.
func (f *Finding) join(more Finding) {
	f.Count += more.Count
	f.Evidence = append(f.Evidence, more.Evidence[:min(len(more.Evidence), most-len(f.Evidence))]...)
}

// shorten keeps the part of a line that matched.
func shorten(line string, e *expression) string {
	line = strings.TrimSpace(line)
	if len(line) <= longest {
		return line
	}
	at := e.FindStringIndex(line)
	from := max(0, min(at[0]-longest/4, len(line)-longest))
	text := line[from : from+longest]
	if from > 0 {
		text = "…" + text
	}
	return strings.ToValidUTF8(text, "") + "…"
}

// order marks consequences and puts them last.
func order(list []Finding) []Finding {
	for i := range list {
		for _, f := range list {
			if slices.Contains(f.Rule.Explains, list[i].Rule.ID) {
				list[i].Follows = f.Rule.ID
				break
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Finding) int {
		switch {
		case (a.Follows == "") == (b.Follows == ""):
			return 0
		case a.Follows == "":
			return -1
		default:
			return 1
		}
	})
	return list
}

// Print writes findings for a person.
func Print(w io.Writer, list []Finding) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no known cause was found; look at the kubelet's journal: journalctl --unit kubelet --boot")
		return err
	}
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "%s: %s\n", f.Rule.ID, f.Rule.Cause)
		if f.Follows != "" {
			fmt.Fprintf(&b, "  it follows from %s\n", f.Follows)
		}
		for _, e := range f.Evidence {
			fmt.Fprintf(&b, "  %s\n", e)
		}
		if f.Count > len(f.Evidence) {
			fmt.Fprintf(&b, "  and %d lines more\n", f.Count-len(f.Evidence))
		}
		fmt.Fprintf(&b, "  remedy: %s\n\n", f.Rule.Remedy)
	}
	_, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n"))
	return err
}
