// Package diagnose says why a node did not join: it looks for known causes in
// what the kubelet, containerd and the first boot said, and shows the lines
// that prove each and what to do about it.
package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
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

// Logs looks for every rule's lines in texts. Findings come in the table's order,
// those that follow from another one last.
func Logs(logs ...Log) ([]Finding, error) {
	s := NewSearch(context.Background())
	var errs []error
	for _, l := range logs {
		errs = append(errs, s.Log(l))
	}
	return s.Report().Findings, errors.Join(errs...)
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

// shorten keeps the part of a line at and around a place, printable.
func shorten(line string, at int) string {
	if len(line) <= longest {
		return printable(strings.TrimSpace(line))
	}
	from := max(0, min(at-longest/4, len(line)-longest))
	text := line[from : from+longest]
	if from > 0 {
		text = "…" + text
	}
	return printable(strings.TrimSpace(strings.ToValidUTF8(text, ""))) + "…"
}

// printable writes what would steer a terminal as text.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\t' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
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
