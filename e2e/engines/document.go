package engines

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Both kinds of documents have the same names of parameters, constants and
// steps, and the same references to them.
var (
	nameForm  = regexp.MustCompile(`^[A-Za-z0-9_-]{3,128}$`)
	reference = regexp.MustCompile(`\{\{\s*([^{}]*?)\s*\}\}`)
)

// decode reads a document. Unknown fields are errors.
func decode(text string, into any) error {
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	return d.Decode(into)
}

// fill replaces the references in a text. A name without a value is an error.
func fill(text string, values map[string]string) (string, error) {
	var missing []error
	filled := reference.ReplaceAllStringFunc(text, func(found string) string {
		name := reference.FindStringSubmatch(found)[1]
		value, there := values[name]
		if !there {
			missing = append(missing, fmt.Errorf("no parameter, constant or step named %q", name))
		}
		return value
	})
	return filled, errors.Join(missing...)
}

// rules collects an engine's rules that a document breaks.
type rules []error

func (r *rules) demand(holds bool, format string, args ...any) {
	if !holds {
		*r = append(*r, fmt.Errorf(format, args...))
	}
}

// given returns the values of a document's parameters: the sent value, or the
// default.
func given(sent map[string]string, defaults map[string]*string) (map[string]string, error) {
	values := map[string]string{}
	var broken rules
	for name, value := range defaults {
		text, there := sent[name]
		broken.demand(there || value != nil, "the parameter %s has no value", name)
		if !there && value != nil {
			text = *value
		}
		values[name] = text
	}
	for name := range sent {
		_, known := defaults[name]
		broken.demand(known, "the document has no parameter %s", name)
	}
	return values, errors.Join(broken...)
}
