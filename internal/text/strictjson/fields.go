package strictjson

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Object fills the struct that into points to.
func (d *Decoder) Object(n *yaml.Node, path string, into any) {
	v := reflect.ValueOf(into).Elem()
	fields := FieldsOf(v.Type())
	for _, p := range d.pairs(n, path) {
		at := join(path, p.key.Value)
		i, known := fields[p.key.Value]
		if why := d.Refused[at]; why != "" {
			d.fail(p.key, at, "%s", why)
			continue
		}
		if !known {
			d.fail(p.key, at, "unknown field; %s", show.Suggest(p.key.Value, slices.Sorted(maps.Keys(fields))))
			continue
		}
		tag, failed := v.Type().FieldByIndex(i).Tag, d.failed
		if only := tag.Get("only"); only != "" && !strings.HasSuffix(d.Version, "/"+only) {
			d.fail(p.key, at, "%s does not have this field", d.Version)
			continue
		}
		d.placed(at, p.key.Line)
		d.Value(p.value, at, v.FieldByIndex(i))
		if d.failed == failed {
			d.check(p.value, at, v.FieldByIndex(i), tag)
		}
	}
}

// check compares a value with the tags of its field: enum and pattern are for texts,
// which must not be empty then, and least and most for numbers.
func (d *Decoder) check(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag) {
	if enum := tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), v.String()) {
		d.fail(n, path, "unknown value %q; %s", v.String(), show.Suggest(v.String(), strings.Split(enum, ",")))
	}
	if pattern := tag.Get("pattern"); pattern != "" && !regexp.MustCompile(pattern).MatchString(v.String()) {
		d.fail(n, path, "%q does not match %s", v.String(), pattern)
	}
	least, err := strconv.Atoi(tag.Get("least"))
	most, alsoErr := strconv.Atoi(tag.Get("most"))
	if err == nil && alsoErr == nil && (v.Int() < int64(least) || v.Int() > int64(most)) {
		d.fail(n, path, "%d is not between %d and %d", v.Int(), least, most)
	}
}

// fieldsByType keeps what FieldsOf found, because a table has one type in many rows.
var fieldsByType sync.Map

// FieldsOf maps a struct's names in JSON, or else in YAML, to its fields, also those of
// embedded structs. A field that only files of ours have is named by the tag "file".
func FieldsOf(t reflect.Type) map[string][]int {
	if fields, ok := fieldsByType.Load(t); ok {
		return fields.(map[string][]int)
	}
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(cmp.Or(f.Tag.Get("file"), f.Tag.Get("json"), f.Tag.Get("yaml")), ",")
		if f.IsExported() && !f.Anonymous && name != "-" {
			fields[name] = f.Index
		}
	}
	fieldsByType.Store(t, fields)
	return fields
}

// Free returns an object of any fields in Go. fail takes the mistakes, as of Decoder.
func Free(n *yaml.Node, fail func(line int, path, text string)) map[string]any {
	left := MaxValues
	d := Decoder{Left: &left, Fail: fail}
	object, _ := d.free(n, "").(map[string]any)
	return object
}

// Ours reads a table of this program. The fields have their names in YAML, which without a
// tag are those of Go in lower case. Other fields are a mistake of this program.
func Ours(file string, text []byte, to any) {
	known := yaml.NewDecoder(bytes.NewReader(text))
	known.KnownFields(true)
	if err := known.Decode(to); err != nil {
		panic(fmt.Errorf("reading %s: %w", file, err))
	}
}
