package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// leftoversFile is the record of `make e2e-full FULL=-update`.
//
//go:embed leftovers.json
var leftoversFile []byte

// trial is one instance that started from an image with one leftover, as package
// e2e/join records it.
type trial struct {
	Rule, Case, FirstBoot, Result, Message string
	Paths, Leaks                           []string
}

// Note is what the page says about a trial in addition to its result.
func (t trial) Note() string {
	var notes []string
	if t.Message != "" {
		notes = append(notes, "`"+strings.ReplaceAll(t.Message, "`", "'")+"`")
	}
	if len(t.Leaks) == 1 {
		notes = append(notes, "1 file names the old cluster")
	} else if len(t.Leaks) > 1 {
		notes = append(notes, fmt.Sprintf("%d files name the old cluster", len(t.Leaks)))
	}
	return strings.Join(notes, "; ")
}

// leftover is what stayed in an image, and its two trials.
type leftover struct {
	Rule, Case   string
	Paths        []string
	AsAmazon     trial
	AsNodeConfig trial
}

// Shown are the first paths, and the number of the others.
func (l leftover) Shown() string {
	const most = 3
	if len(l.Paths) <= most {
		return code(l.Paths)
	}
	return fmt.Sprintf("%s and %d more", code(l.Paths[:most]), len(l.Paths)-most)
}

// leftovers pairs the trials of each leftover, in the order of the record.
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
			list = append(list, leftover{Rule: t.Rule, Case: t.Case, Paths: t.Paths})
		}
		if t.FirstBoot == "NodeConfig" {
			list[i].AsNodeConfig = t
		} else {
			list[i].AsAmazon = t
		}
	}
	return list, nil
}

// exceptionsFile lists the checks of other programs that do not pass on a node.
// The tests of e2e/join fail on any other check, and on a listed one that passes.
//
//go:embed exceptions.json
var exceptionsFile []byte

// exception is a check that does not pass, or all whose names contain Name.
type exception struct{ Check, Name, Why string }

// exceptions lists the exceptions of one program.
func exceptions(program string) ([]exception, error) {
	var all []exception
	if err := json.Unmarshal(exceptionsFile, &all); err != nil {
		return nil, fmt.Errorf("reading exceptions.json: %w", err)
	}
	all = slices.DeleteFunc(all, func(e exception) bool { return e.Check != program })
	if len(all) == 0 {
		return nil, fmt.Errorf("exceptions.json lists no check of %q", program)
	}
	return all, nil
}
