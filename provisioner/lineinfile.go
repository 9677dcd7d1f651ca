package provisioner

import (
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// lineInFile is one line of a file that belongs to another program.
type lineInFile struct {
	Path string
	// Key is a regular expression for the lines that the line replaces.
	Key, Text string
	// First puts a new line at the beginning of the file: before the first table of
	// a TOML file.
	First bool
	Why   string
}

// in is the text with the line, which replaces the first match of Key and no later
// one.
func (l lineInFile) in(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	matches := regexp.MustCompile(l.Key).MatchString
	at := slices.IndexFunc(lines, matches)
	if lines = slices.DeleteFunc(lines, matches); at < 0 {
		at = len(lines)
		if l.First {
			at = 0
		}
	}
	return strings.Join(slices.Insert(lines, at, l.Text), "\n") + "\n"
}

// planLines plans the missing lines. A missing file is created with them; its
// package keeps its own settings elsewhere.
func planLines(h *host.Host, lines []lineInFile) ([]plan.Action, error) {
	var edits []plan.Edit
	for _, l := range lines {
		edits = append(edits, plan.Edit{Path: l.Path, Target: l.Path + ": " + l.Text, Why: l.Why, Change: l.in})
	}
	return plan.Edits(h, edits...)
}
