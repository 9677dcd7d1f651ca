//go:build linux

package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

// shapes are the names in the answers of AWS, by step and action. They have no values.
type shapes map[string]map[string][]string

// recorded are the shapes of moto and the doubles, which a test records.
//
//go:embed shapes.json
var recorded []byte

// add adds the names of an answer.
func (s shapes) add(step, action string, answer any) {
	found := map[string]bool{}
	names(answer, "", found)
	if s[step] == nil {
		s[step] = map[string][]string{}
	}
	for _, name := range s[step][action] {
		found[name] = true
	}
	s[step][action] = slices.Sorted(maps.Keys(found))
}

func names(answer any, path string, found map[string]bool) {
	switch answer := answer.(type) {
	case map[string]any:
		for name, value := range answer {
			names(value, path+"."+name, found)
		}
	case []any:
		for _, one := range answer {
			names(one, path+"[]", found)
		}
	default:
		found[path] = true
	}
}

// differences says what is only in the answers of this run, or only in those of the
// doubles: then a double is wrong.
func (s shapes) differences(step string) (all []string, err error) {
	var of shapes
	if err := json.Unmarshal(recorded, &of); err != nil {
		return nil, fmt.Errorf("reading shapes.json: %w", err)
	}
	only := func(where string, in, notIn []string, action string) {
		for _, name := range in {
			if !slices.Contains(notIn, name) {
				all = append(all, action+name+": only in "+where)
			}
		}
	}
	for _, action := range slices.Sorted(maps.Keys(s[step])) {
		only("AWS", s[step][action], of[step][action], action)
		only("the double", of[step][action], s[step][action], action)
	}
	return all, nil
}

func (s shapes) write(path string) error {
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
