package provisioner

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// lineInFile is one line of a file that belongs to another program.
type lineInFile struct {
	path string
	// key is a regular expression for the lines that the line replaces.
	key  string
	text string
	// first puts a new line at the beginning of the file: before the first table of
	// a TOML file.
	first bool
	why   string
}

// in is the text with the line, which replaces the first match of key and no later
// one.
func (l lineInFile) in(text string) string {
	key := regexp.MustCompile(l.key)
	var out []string
	done := false
	for have := range strings.Lines(text) {
		have = strings.TrimSuffix(have, "\n")
		switch {
		case !key.MatchString(have):
			out = append(out, have)
		case !done:
			out = append(out, l.text)
			done = true
		}
	}
	switch {
	case done:
	case l.first:
		out = slices.Insert(out, 0, l.text)
	default:
		out = append(out, l.text)
	}
	return strings.Join(out, "\n") + "\n"
}

// planLines plans the missing lines. A missing file is created with them; its
// package keeps its own settings elsewhere.
func planLines(h *host.Host, lines []lineInFile) ([]plan.Action, error) {
	var actions []plan.Action
	for _, l := range lines {
		text, err := h.Content(l.path)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", l.path, err)
		}
		if text != nil && l.in(string(text)) == string(text) {
			continue
		}
		actions = append(actions, plan.Action{Verb: plan.Write, Target: fmt.Sprintf("%s: %s", l.path, l.text), Reason: l.why,
			Do: func(context.Context, plan.Progress) error { return l.write(h) }})
	}
	return actions, nil
}

func (l lineInFile) write(h *host.Host) error {
	text, err := h.Content(l.path)
	if err != nil {
		return err
	}
	attr := host.Attributes{Mode: 0o644}
	if text != nil {
		if attr, err = h.Files.Attributes(l.path); err != nil {
			return err
		}
	}
	return h.Files.WriteFile(l.path, []byte(l.in(string(text))), attr)
}
