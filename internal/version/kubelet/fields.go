package kubelet

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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
// does not have, those of another type, and values that no kubelet starts with. A kubelet
// ignores Unknown ones.
func FieldProblems(minor int, config map[string]any) []Problem {
	return append(fieldProblems(minor, "", "", config), valueProblems(config)...)
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
			return wrong("must be %s, not %s", wanted[f.kind], kindOf(value, true))
		}
		return nil
	}
	below := namesBelow(pattern)
	switch {
	case value == nil || path == "" && len(below) == 0:
		return nil
	case slices.Equal(below, []string{"[]"}):
		list, isList := value.([]any)
		if !isList {
			return wrong("must be a list, not %s", kindOf(value, false))
		}
		var problems []Problem
		for i, entry := range list {
			problems = append(problems, fieldProblems(minor, fmt.Sprintf("%s[%d]", path, i), pattern+"[]", entry)...)
		}
		return problems
	}
	object, isObject := value.(map[string]any)
	if !isObject {
		return wrong("must be an object, not %s", kindOf(value, false))
	}
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at, as := strings.TrimPrefix(path+"."+name, "."), strings.TrimPrefix(pattern+"."+name, ".")
		if slices.Equal(below, []string{"*"}) {
			as = pattern + ".*"
		} else if !slices.Contains(below, name) {
			hint := "see the fields of KubeletConfiguration in kubelet.config.k8s.io/v1beta1"
			if best := show.Nearest(name, below); best != "" {
				hint = "did you mean " + best + "?"
			}
			problems = append(problems, Problem{
				Field: at, Text: "unknown field of the kubelet, which ignores it; " + hint, Unknown: true,
			})
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

// wanted describes the kinds of values for messages.
var wanted = map[string]string{
	"bool": "true or false", "string": "text in quotes", "number": "a number", "text": "a text or a number",
	"duration": "a duration in quotes, such as 30s or 5m", "quantity": "a quantity such as 100m or 512Mi",
	"int32": "an integer of 32 bits", "int64": "an integer of 64 bits", "uint32": "an integer of 32 bits",
}

// quantityForm is the form of a Quantity (k8s.io/apimachinery, pkg/api/resource).
var quantityForm = show.Regexp(`^[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$`)

// fits reports whether the kubelet's decoder takes a value for a kind.
func fits(kind string, value any) bool {
	number, whole := integer(value)
	_, broken := value.(float64)
	text, isText := value.(string)
	switch kind {
	case "bool":
		_, truth := value.(bool)
		return truth
	case "int32":
		return whole && number == int64(int32(number))
	case "uint32":
		return whole && number == int64(uint32(number))
	case "int64":
		return whole
	case "number":
		return whole || broken
	case "duration":
		_, err := time.ParseDuration(text)
		return isText && err == nil
	case "quantity":
		return whole || broken || quantityForm().MatchString(text)
	case "text":
		return isText || whole || broken
	default:
		return isText
	}
}

// kindOf describes a value for messages, with the value of a scalar if exact.
func kindOf(value any, exact bool) string {
	switch v := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		if exact {
			return fmt.Sprintf("the text %q", show.Short(v, 500))
		}
		return "text"
	case bool:
		if !exact {
			return "a boolean"
		}
	default:
		if !exact {
			return "a number"
		}
	}
	return fmt.Sprintf("%q", fmt.Sprint(value))
}
