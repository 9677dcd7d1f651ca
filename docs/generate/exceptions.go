package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

// exceptionsFile says which checks of others do not pass on a node, and why.
// The tests of e2e/join fail on any other, and on one that passes.
//
//go:embed exceptions.json
var exceptionsFile []byte

// exception is a check, or several whose names hold this part.
type exception struct{ Check, Name, Why string }

// exceptions are those to the checks of one program.
func exceptions(check string) ([]exception, error) {
	var all []exception
	if err := json.Unmarshal(exceptionsFile, &all); err != nil {
		return nil, fmt.Errorf("reading exceptions.json: %w", err)
	}
	all = slices.DeleteFunc(all, func(e exception) bool { return e.Check != check })
	if len(all) == 0 {
		return nil, fmt.Errorf("exceptions.json has none to %q", check)
	}
	return all, nil
}
