package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

// outcomes say what each outcome is on the page.
var outcomes = map[outcome]string{
	removed: "removed", emptied: "emptied", changed: "rewritten", reported: "reported", keeps: "kept on purpose", nothing: "nothing to do",
}

// Paths are the files of the sample.
func (c covered) Paths() []string { return slices.Sorted(maps.Keys(c.Sample)) }

// Does is what the scrub does.
func (c covered) Does() string { return outcomes[c.Outcome] }

// Notes are the rule, with a link, and the reason.
func (c covered) Notes() string {
	switch {
	case c.Rule == "":
		return plain(c.Why)
	case c.Why == "":
		return fmt.Sprintf("[`%s`](rules.md#%s)", c.Rule, c.Rule)
	default:
		return fmt.Sprintf("[`%s`](rules.md#%s): %s", c.Rule, c.Rule, plain(c.Why))
	}
}

// coverage lists the rows of one source.
func coverage(from string) ([]covered, error) {
	var all []covered
	if err := json.Unmarshal(coverageFile, &all); err != nil {
		return nil, fmt.Errorf("reading coverage.json: %w", err)
	}
	all = slices.DeleteFunc(all, func(c covered) bool { return c.From != from })
	if len(all) == 0 {
		return nil, fmt.Errorf("coverage.json lists nothing of %q", from)
	}
	return all, nil
}
