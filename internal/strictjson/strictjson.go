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

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
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
		if err := readField(name.Value, value, to); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", name.Line, err))
		}
	}
	return errors.Join(errs...)
}

// readField reads the value of one field.
func readField(name string, value *yaml.Node, to any) error {
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return fmt.Errorf("the field %s: %w", name, yamlError(err))
	}
	if decoded == nil {
		return fmt.Errorf("the field %s has no value", name)
	}
	text, err := json.Marshal(map[string]any{name: decoded})
	if err != nil {
		return fmt.Errorf("the field %s: %w", name, err)
	}
	err = Read(text, to)
	var at *placed
	if errors.As(err, &at) { // the place is that in the JSON
		return at.error
	}
	return err
}

// yamlError is an error of the library without its own words.
func yamlError(err error) error {
	return errors.New(strings.NewReplacer("yaml: ", "", "unmarshal errors:\n  ", "").Replace(err.Error()))
}

// placed is an error with its line and column.
type placed struct {
	place string
	error
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
		meant := show.Meant(strings.Trim(m[1], `"`), known)
		where := regexp.MustCompile(regexp.QuoteMeta(m[1]) + `\s*:`).FindIndex(text)
		if where == nil { // written with escapes
			return fmt.Errorf("the field %s is not known%s", m[1], meant)
		}
		return at(text, int64(where[0]), "the field %s is not known%s", m[1], meant)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// at is an error with the line and column of an offset, both from 1.
func at(text []byte, offset int64, format string, args ...any) error {
	before := text[:max(0, min(offset, int64(len(text))))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return &placed{fmt.Sprintf("line %d, column %d", line, column), fmt.Errorf(format, args...)}
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
