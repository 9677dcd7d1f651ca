// Package strictjson reads complete JSON and YAML texts. Its errors name line, column
// and field, in JSON's terms instead of Go's.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

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

// escape matches an escape of JSON; two halves of one character are one.
var escape = show.Regexp(`\\(u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|.)`)

// AsYAML returns JSON as the YAML library reads it: without tabs between values, without
// \/, and without characters in two halves. Other texts stay.
func AsYAML(text []byte) []byte {
	if !json.Valid(text) {
		return text
	}
	return escape().ReplaceAllFunc(bytes.ReplaceAll(text, []byte("\t"), []byte(" ")), func(found []byte) []byte {
		var whole string
		if len(found) == 2 && found[1] != '/' {
			return found
		}
		_ = json.Unmarshal(slices.Concat([]byte{'"'}, found, []byte{'"'}), &whole) // the text is valid
		return []byte(whole)
	})
}

// ReadYAML reads one object in YAML, or in JSON, into a struct. The error lists all
// mistakes, each with its file, line and path. lines has the line of each path.
func ReadYAML(file string, text []byte, to any) (lines map[string]int, err error) {
	var document yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(AsYAML(text)))
	if err := documents.Decode(&document); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: the text is empty", file)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := documents.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more than one YAML document; keep one", file)
	}
	var errs []error
	left := MaxValues
	lines = map[string]int{}
	d := Decoder{Left: &left, Full: true, Placed: func(path string, line int) { lines[path] = line },
		Fail: func(line int, path, text string) {
			errs = append(errs, fmt.Errorf("%s:%d: %s: %s", file, line, cmp.Or(path, "the file"), text))
		}}
	d.Value(document.Content[0], "", reflect.ValueOf(to).Elem())
	return lines, errors.Join(errs...)
}

// WriteYAML writes a document with an indent of two spaces.
func WriteYAML(document any) (string, error) {
	var text strings.Builder
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	err := e.Encode(document)
	return text.String(), err
}

// ReadKnown is Read for texts with possible unknown fields, which it ignores.
func ReadKnown(text []byte, to any) error {
	if err := json.Unmarshal(text, to); err != nil {
		return explain(text, err)
	}
	return nil
}

// unknownField matches the library's only error without a type or an offset.
var unknownField = show.Regexp(`^json: unknown field ("(?:[^"\\]|\\.)*")$`)

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
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &syntax) && syntax.Offset >= int64(len(text)) &&
		strings.HasPrefix(syntax.Error(), "unexpected end"):
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
		return at(text, int64(where[0]), "%s", said)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// at is an error with the line and column of an offset, both from 1.
func at(text []byte, offset int64, format string, args ...any) error {
	before := text[:max(0, min(offset, int64(len(text))))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
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
