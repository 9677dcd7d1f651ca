package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// leftoversFile is what `make e2e-full` saw and, with -update, wrote here.
//
//go:embed leftovers.json
var leftoversFile []byte

// trial is one instance started from an image with one leftover, as package
// e2e/join records it.
type trial struct {
	Rule, Case, FirstBoot, Result, Message string
	Paths, Leaks                           []string
}

// leftover is a leftover and what became of both instances.
type leftover struct {
	Rule, Case string
	Paths      []string
	// Outcomes are by first boot.
	Outcomes map[string]trial
}

// leftovers pairs the trials, in their order.
func leftovers() ([]leftover, error) {
	var trials []trial
	if err := json.Unmarshal(leftoversFile, &trials); err != nil {
		return nil, fmt.Errorf("reading leftovers.json: %w", err)
	}
	var list []leftover
	for _, t := range trials {
		i := slices.IndexFunc(list, func(l leftover) bool { return l.Rule == t.Rule && l.Case == t.Case })
		if i < 0 {
			i = len(list)
			list = append(list, leftover{t.Rule, t.Case, t.Paths, map[string]trial{}})
		}
		list[i].Outcomes[t.FirstBoot] = t
	}
	return list, nil
}

// outcome says in a cell what became of an instance.
func outcome(l leftover, firstBoot string) string {
	t := l.Outcomes[firstBoot]
	text := t.Result
	if t.Result != "joins" {
		text = "**" + t.Result + "**"
	}
	if t.Message != "" {
		text += ": " + cell(t.Message)
	}
	if len(t.Leaks) > 0 {
		text += fmt.Sprintf("; files that know the old cluster: %d", len(t.Leaks))
	}
	return text
}

// some shortens a list of paths.
func some(paths []string) string {
	const most = 3
	if len(paths) <= most {
		return code(paths)
	}
	return fmt.Sprintf("%s and %d more", strings.TrimSpace(code(paths[:most])), len(paths)-most)
}
