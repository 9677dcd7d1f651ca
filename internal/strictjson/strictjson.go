// Package strictjson reads complete JSON texts. Its errors name line, column and
// field, in JSON's terms instead of Go's.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"sync"
)

// Read reads a text that is one JSON value. Fields that the destination does not
// have are errors.
func Read(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return explain(text, err)
	}
	end := d.InputOffset()
	if rest := bytes.TrimLeft(text[end:], " \t\r\n"); len(rest) > 0 {
		return fmt.Errorf("%s: more text follows the end", place(text, int64(len(text)-len(rest))))
	}
	return nil
}

// ReadKnown is Read for texts with possible unknown fields, which it ignores.
func ReadKnown(text []byte, to any) error {
	if err := json.Unmarshal(text, to); err != nil {
		return explain(text, err)
	}
	return nil
}

// unknownField matches the library's only error without a type or an offset.
var unknownField = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^json: unknown field ("(?:[^"\\]|\\.)*")$`) })

func explain(text []byte, err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return errors.New("the text is empty")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &syntax) && syntax.Offset >= int64(len(text)) && strings.HasPrefix(syntax.Error(), "unexpected end"):
		return fmt.Errorf("%s: the text ends too early", place(text, int64(len(text))))
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: %s", place(text, syntax.Offset-1), syntax.Error())
	case errors.As(err, &wrong):
		field := ""
		if wrong.Field != "" {
			field = fmt.Sprintf("the field %s: ", wrong.Field)
		}
		return fmt.Errorf("%s: %sexpected %s, found %s", place(text, wrong.Offset-1), field, wanted(wrong.Type), found(wrong.Value))
	}
	if m := unknownField().FindStringSubmatch(err.Error()); m != nil {
		at := regexp.MustCompile(regexp.QuoteMeta(m[1]) + `\s*:`).FindIndex(text)
		if at == nil { // written with escapes
			return fmt.Errorf("the field %s is not known", m[1])
		}
		return fmt.Errorf("%s: the field %s is not known", place(text, int64(at[0])), m[1])
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// place is the line and column of an offset, both from 1.
func place(text []byte, offset int64) string {
	before := text[:max(0, min(offset, int64(len(text))))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Sprintf("line %d, column %d", line, column)
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
