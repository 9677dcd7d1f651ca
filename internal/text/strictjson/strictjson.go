// Package strictjson reads complete JSON and YAML texts. Its errors name line, column
// and field, in JSON's terms instead of Go's.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Read reads a text that is one JSON value. Fields that the destination does not
// have are errors.
func Read(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return explain(text, err, fields(reflect.TypeOf(to), nil)...)
	}
	end := d.InputOffset()
	if rest := bytes.TrimLeft(text[end:], " \t\r\n"); len(rest) > 0 {
		return at(text, int64(len(text)-len(rest)), "more text follows the end")
	}
	return nil
}

// ReadYAML is Read for one object in YAML, or in JSON, whose errors also name the column.
func ReadYAML(text []byte, to any) error {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return Read(text, to)
	}
	var document yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	err := documents.Decode(&document)
	if errors.Is(err, io.EOF) {
		return errors.New("the text is empty")
	}
	var fields map[string]yaml.Node
	if err == nil && document.Content[0].Kind != yaml.MappingNode {
		return errors.New("expected fields with values, such as name: value")
	}
	if err == nil { // also finds fields that are set twice
		err = document.Decode(&fields)
	}
	if err != nil {
		return yamlError(err)
	}
	if documents.Decode(new(yaml.Node)) == nil {
		return errors.New("more than one YAML document; keep one")
	}
	var errs []error
	for i := 0; i+1 < len(document.Content[0].Content); i += 2 {
		name, value := document.Content[0].Content[i], document.Content[0].Content[i+1]
		if line, err := readField(name, value, to); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", line, err))
		}
	}
	return errors.Join(errs...)
}

// readField reads the value of one field. An error comes with its line.
func readField(name, value *yaml.Node, to any) (int, error) {
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return name.Line, fmt.Errorf("the field %s: %w", name.Value, yamlError(err))
	}
	if decoded == nil {
		return name.Line, fmt.Errorf("the field %s has no value", name.Value)
	}
	text, err := json.Marshal(map[string]any{name.Value: decoded})
	if err != nil {
		return name.Line, fmt.Errorf("the field %s: %w", name.Value, err)
	}
	err = Read(text, to)
	var at *placed
	if !errors.As(err, &at) {
		return name.Line, err
	}
	// The place is that in the JSON.
	if key := keyIn(value, at.unknown); at.unknown != "" && key != nil {
		return key.Line, at.error
	}
	return name.Line, at.error
}

// keyIn returns the first key of this name in a value, or nil.
func keyIn(value *yaml.Node, name string) *yaml.Node {
	for i, part := range value.Content {
		if value.Kind == yaml.MappingNode && i%2 == 0 && part.Value == name {
			return part
		}
		if key := keyIn(part, name); key != nil {
			return key
		}
	}
	return nil
}

// yamlError is an error of the library without its own words.
func yamlError(err error) error {
	return errors.New(strings.NewReplacer("yaml: ", "", "unmarshal errors:\n  ", "").Replace(err.Error()))
}

// placed is an error with its line and column.
type placed struct {
	place string
	error
	unknown string // the field that is not known, if that is the error
}

func (p *placed) Error() string { return p.place + ": " + p.error.Error() }

// ReadKnown is Read for texts with possible unknown fields, which it ignores.
func ReadKnown(text []byte, to any) error {
	if err := json.Unmarshal(text, to); err != nil {
		return explain(text, err)
	}
	return nil
}

// unknownField matches the library's only error without a type or an offset.
var unknownField = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^json: unknown field ("(?:[^"\\]|\\.)*")$`) })

// fields are the names of the fields of a type, also of the types in it.
func fields(t reflect.Type, names []string) []string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return fields(t.Elem(), names)
	case reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name != "" && name != "-" && !slices.Contains(names, name) {
				names = fields(t.Field(i).Type, append(names, name))
			}
		}
	}
	return names
}

// explain gives an error line, column and field. For an unknown field it suggests one of
// the known fields.
func explain(text []byte, err error, known ...string) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return errors.New("the text is empty")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &syntax) && syntax.Offset >= int64(len(text)) && strings.HasPrefix(syntax.Error(), "unexpected end"):
		return at(text, int64(len(text)), "the text ends too early")
	case errors.As(err, &syntax):
		return at(text, syntax.Offset-1, "%s", syntax.Error())
	case errors.As(err, &wrong):
		field := ""
		if wrong.Field != "" {
			field = fmt.Sprintf("the field %s: ", wrong.Field)
		}
		return at(text, wrong.Offset-1, "%sexpected %s, found %s", field, wanted(wrong.Type), found(wrong.Value))
	}
	if m := unknownField().FindStringSubmatch(err.Error()); m != nil {
		name := strings.Trim(m[1], `"`)
		said := fmt.Sprintf("the field %s is not known%s", m[1], show.Meant(name, known))
		where := regexp.MustCompile(regexp.QuoteMeta(m[1]) + `\s*:`).FindIndex(text)
		if where == nil { // written with escapes
			return errors.New(said)
		}
		unknown := at(text, int64(where[0]), "%s", said)
		unknown.unknown = name
		return unknown
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// at is an error with the line and column of an offset, both from 1.
func at(text []byte, offset int64, format string, args ...any) *placed {
	before := text[:max(0, min(offset, int64(len(text))))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return &placed{place: fmt.Sprintf("line %d, column %d", line, column), error: fmt.Errorf(format, args...)}
}

// found names the kind of the JSON value.
func found(kind string) string {
	kind, _, _ = strings.Cut(kind, " ") // digits of the number follow
	switch kind {
	case "string":
		return "a string"
	case "bool":
		return "true or false"
	case "object":
		return "an object"
	case "array":
		return "a list"
	}
	return "a " + kind
}

// wanted names the JSON kind for a Go type.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
