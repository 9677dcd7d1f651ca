//go:build linux

package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
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

// differences says what is only in the answers of a run of an IP family, or only in those
// of the doubles: then a double is wrong.
func (s shapes) differences(step, family string) (all []string, err error) {
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
	// Both families are recorded in one file.
	other := map[string]string{"ipv4": "Ipv6", "ipv6": "Ipv4"}[family]
	for _, action := range slices.Sorted(maps.Keys(s[step])) {
		only("AWS", s[step][action], of[step][action], action)
		expected := slices.DeleteFunc(slices.Clone(of[step][action]),
			func(n string) bool { return strings.Contains(n, other) })
		only("the double", expected, s[step][action], action)
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
