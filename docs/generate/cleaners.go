package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// coverageFile lists what other cleaners remove, and the state of common
// programs. TestCoverage proves each row on files.
//
//go:embed coverage.json
var coverageFile []byte

// covered is a step of another cleaner, or a program, and what the scrub does
// with its files.
type covered struct {
	From, Item string
	Outcome    outcome
	Rule, Why  string
	// Sample are files by their path in an image.
	Sample map[string]string
}

// outcome is what a scrub and its audit do with a file.
type outcome string

// The outcomes.
const (
	removed  outcome = "removed"
	emptied  outcome = "emptied"
	changed  outcome = "changed"  // lines of one machine are removed
	reported outcome = "reported" // by the scrub or its audit, and not changed
	keeps    outcome = "kept"
	nothing  outcome = "none" // the step has no file that an image could keep
)

var outcomes = map[outcome]string{
	removed: "removed", emptied: "emptied", changed: "rewritten", reported: "reported", keeps: "kept on purpose",
	nothing: "nothing to do",
}

// Step is the step or program. Files that stay are named too, because no rule names them.
func (c covered) Step() string {
	names := slices.Sorted(maps.Keys(c.Sample))
	if c.Outcome != keeps || slices.Equal(names, []string{c.Item}) {
		return plain(c.Item)
	}
	return plain(c.Item) + " (" + shown(names) + ")"
}

// Notes are the rule, with a link, and the reason.
func (c covered) Notes() string {
	switch {
	case c.Rule == "":
		return plain(c.Why)
	case c.Why == "":
		return ruleLinks("rules.md", []string{c.Rule})
	default:
		return ruleLinks("rules.md", []string{c.Rule}) + " (" + plain(c.Why) + ")"
	}
}

// result is an outcome, with the steps that have it for the same rule or reason.
type result struct {
	Does    string
	Entries []entry
}

// entry has the steps with the same rule and reason.
type entry struct {
	Notes   string
	HasRule bool
	Steps   []string
}

// String begins with the rule. Without a rule, it begins with a few steps, and ends with the reason.
func (e entry) String() string {
	steps := asList(e.Steps)
	if e.HasRule || strings.Contains(steps, "\n") {
		return e.Notes + ":" + steps
	}
	return strings.TrimPrefix(steps, " ") + ": " + e.Notes
}

// results are the rows of one source, by what the scrub does.
func results(from string) ([]result, error) {
	rows, err := coverage(from)
	var list []result
	for _, o := range []outcome{removed, emptied, changed, reported, keeps, nothing} {
		r := result{Does: outcomes[o]}
		for _, row := range rows {
			if row.Outcome != o {
				continue
			}
			i := slices.IndexFunc(r.Entries, func(e entry) bool { return e.Notes == row.Notes() })
			if i < 0 {
				i = len(r.Entries)
				r.Entries = append(r.Entries, entry{Notes: row.Notes(), HasRule: row.Rule != ""})
			}
			if steps := &r.Entries[i].Steps; !slices.Contains(*steps, row.Step()) {
				*steps = append(*steps, row.Step())
			}
		}
		if r.Entries != nil {
			list = append(list, r)
		}
	}
	return list, err
}

// coverage lists the rows of one source.
func coverage(from string) ([]covered, error) {
	return rowsOf(coverageFile, "coverage.json", from, func(c covered) string { return c.From })
}

// rowsOf returns the rows of one source in a list.
func rowsOf[T any](text []byte, name, source string, of func(T) string) ([]T, error) {
	var all []T
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	all = slices.DeleteFunc(all, func(row T) bool { return of(row) != source })
	if len(all) == 0 {
		return nil, fmt.Errorf("%s lists nothing of %q", name, source)
	}
	return all, nil
}
