package kubelet

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// fieldLines has a line for each value of KubeletConfiguration: its path, with * for the
// names of a map and [] for the entries of a list, its type, and the first minor version
// of Kubernetes 1 that has it, unless all have.
//
//go:embed fields.txt
var fieldLines string

type fieldType struct {
	kind  string
	since int
}

var fieldTypes = sync.OnceValue(func() map[string]fieldType {
	types := map[string]fieldType{}
	for line := range strings.Lines(fieldLines) {
		words := strings.Fields(line)
		f := fieldType{kind: words[1]}
		if len(words) == 3 {
			f.since, _ = strconv.Atoi(words[2]) // a test reads the lines
		}
		types[words[0]] = f
	}
	return types
})

// FieldProblems returns the fields of a configuration that a kubelet of a minor version
// does not have, and those of another type.
func FieldProblems(minor int, config map[string]any) []Problem {
	return fieldProblems(minor, "", "", config)
}

// fieldProblems checks a value. path has the names of the value's place, and pattern is
// the same as in fieldLines.
func fieldProblems(minor int, path, pattern string, value any) []Problem {
	wrong := func(format string, args ...any) []Problem {
		return []Problem{{Field: path, Text: fmt.Sprintf(format, args...)}}
	}
	if f, leaf := fieldTypes()[pattern]; leaf {
		switch {
		case f.since > minor:
			return wrong("kubelets before 1.%d do not have this field", f.since)
		case value != nil && !fits(f.kind, value):
			return wrong("must be %s", map[string]string{
				"bool": "true or false", "integer": "an integer", "number": "a number", "string": "a string", "text": "a text or a number",
			}[f.kind])
		}
		return nil
	}
	below := namesBelow(pattern)
	switch {
	case len(below) == 0:
		if path == "" {
			return nil
		}
		return wrong("the kubelet has no such field")
	case value == nil:
		return nil
	case slices.Equal(below, []string{"[]"}):
		list, isList := value.([]any)
		if !isList {
			return wrong("must be a list")
		}
		var problems []Problem
		for i, entry := range list {
			problems = append(problems, fieldProblems(minor, fmt.Sprintf("%s[%d]", path, i), pattern+"[]", entry)...)
		}
		return problems
	}
	object, isObject := value.(map[string]any)
	if !isObject {
		return wrong("must be an object")
	}
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at, as := strings.TrimPrefix(path+"."+name, "."), strings.TrimPrefix(pattern+"."+name, ".")
		if slices.Equal(below, []string{"*"}) {
			as = pattern + ".*"
		} else if !slices.Contains(below, name) {
			text := "the kubelet has no such field"
			if best := show.Nearest(name, below); best != "" {
				text += "; did you mean " + best + "?"
			}
			problems = append(problems, Problem{Field: at, Text: text})
			continue
		}
		problems = append(problems, fieldProblems(minor, at, as, object[name])...)
	}
	return problems
}

// namesBelow lists the names below a pattern: those of an object's fields, * or [].
func namesBelow(pattern string) []string {
	var names []string
	for path := range fieldTypes() {
		rest, below := strings.CutPrefix(path, pattern)
		switch list := strings.HasPrefix(rest, "[]"); {
		case !below || rest == "" || pattern != "" && !list && rest[0] != '.':
			continue
		case list && pattern != "":
			return []string{"[]"}
		}
		rest = strings.TrimPrefix(rest, ".")
		name := rest[:len(rest)-len(strings.TrimLeftFunc(rest, func(r rune) bool { return r != '.' && r != '[' }))]
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func fits(kind string, value any) bool {
	_, whole := integer(value)
	_, broken := value.(float64)
	_, text := value.(string)
	_, truth := value.(bool)
	switch kind {
	case "bool":
		return truth
	case "integer":
		return whole
	case "number":
		return whole || broken
	}
	return text || kind == "text" && (whole || broken)
}
