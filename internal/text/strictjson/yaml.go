package strictjson

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Decoder fills structs from YAML nodes and collects all mistakes. No YAML library
// reports the line, the path and the nearest name of an unknown field together.
type Decoder struct {
	// Fail takes a mistake. An empty path is the document.
	Fail func(line int, path, text string)
	// Left is how many bytes of values may follow, with aliases and merge keys followed.
	Left *int
	// Placed, if not nil, takes the line of a path.
	Placed func(path string, line int)
	// Refused explains fields that are known and not supported, by path.
	Refused map[string]string
	// Version is the group and version of the document. Fields with another version in
	// the tag "only" are mistakes.
	Version string
	// Full says that a field without a value is a mistake. Otherwise it has no effect, as
	// in Kubernetes.
	Full bool
	// within lists the aliases that are being followed, to detect cycles.
	within        []*yaml.Node
	depth, failed int
}

const (
	// MaxNesting is the maximum nesting depth of objects and lists.
	MaxNesting = 100
	// MaxValues is how many bytes of values documents have together, with aliases and
	// merge keys followed.
	MaxValues = 2 << 20
)

func (d *Decoder) fail(n *yaml.Node, path, format string, args ...any) {
	d.failed++
	d.Fail(n.Line, path, fmt.Sprintf(format, args...))
}

func (d *Decoder) placed(path string, line int) {
	if d.Placed != nil {
		d.Placed(path, line)
	}
}

// pay reports whether a value is still within the limits. A value costs its bytes, the
// bytes of its path, and the size of a node.
func (d *Decoder) pay(n *yaml.Node, path string) bool {
	if *d.Left < 0 {
		return false // already reported
	}
	*d.Left -= 64 + len(n.Value) + len(path)
	if *d.Left < 0 {
		d.fail(n, "", "the document is too large: with aliases and merge keys followed it has more than %d KiB",
			MaxValues>>10)
	}
	return *d.Left >= 0
}

// follow resolves an alias. Call done after reading its content.
func (d *Decoder) follow(n *yaml.Node, path string) (target *yaml.Node, done func()) {
	nothing := func() {}
	if d.depth >= MaxNesting {
		d.fail(n, "", "the document nests more than %d deep", MaxNesting)
		return nil, nothing
	}
	target = n
	if n.Kind == yaml.AliasNode {
		if slices.Contains(d.within, n.Alias) {
			d.fail(n, path, "the alias *%s contains itself", n.Value)
			return nil, nothing
		}
		target = n.Alias
	}
	if !d.pay(target, path) {
		return nil, nothing
	}
	within := d.within
	if n.Kind == yaml.AliasNode {
		d.within = append(d.within, n.Alias)
	}
	d.depth++
	return target, func() { d.depth--; d.within = within }
}

// pair is one member of an object.
type pair struct{ key, value *yaml.Node }

// pairs lists an object's members with merge keys (<<) resolved. A repeated name is an
// error.
func (d *Decoder) pairs(n *yaml.Node, path string) []pair {
	var own, inherited []pair
	at := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !d.pay(key, path) {
			return nil
		}
		if key.Tag == "!!merge" {
			inherited = append(inherited, d.inherited(value, path)...)
			continue
		}
		if key.Kind != yaml.ScalarNode {
			d.fail(key, path, "a field's name must be text")
			continue
		}
		if first, twice := at[key.Value]; twice {
			d.fail(key, join(path, key.Value), "the field is set twice; first in line %d", first)
			continue
		}
		at[key.Value] = key.Line
		own = append(own, pair{key, value})
	}
	for _, p := range inherited {
		if !d.pay(p.key, path) {
			return nil
		}
		if _, there := at[p.key.Value]; !there {
			at[p.key.Value] = p.key.Line
			own = append(own, p)
		}
	}
	return own
}

func (d *Decoder) inherited(n *yaml.Node, path string) []pair {
	target, done := d.follow(n, path)
	defer done()
	switch {
	case target == nil:
		return nil
	case target.Kind == yaml.MappingNode:
		return d.pairs(target, path)
	case target.Kind == yaml.SequenceNode:
		var all []pair
		for _, c := range target.Content {
			all = append(all, d.inherited(c, path)...)
		}
		return all
	default:
		d.fail(n, path, "<< takes an object, not %s", Kind(target))
		return nil
	}
}

// Value fills one value.
func (d *Decoder) Value(n *yaml.Node, path string, v reflect.Value) {
	target, done := d.follow(n, path)
	defer done()
	if target == nil {
		return
	}
	if target.Kind == yaml.ScalarNode && target.ShortTag() == "!!null" {
		if d.Full {
			d.fail(n, path, "there is no value")
		}
		return
	}
	if into, own := v.Addr().Interface().(encoding.TextUnmarshaler); own {
		if text, ok := d.text(target, path); ok {
			if err := into.UnmarshalText([]byte(text)); err != nil {
				d.fail(target, path, "%v", err)
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if d.is(target, path, yaml.MappingNode, "an object") {
			d.Object(target, path, v.Addr().Interface())
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.Value(target, path, v.Elem())
	case reflect.String:
		if text, ok := d.text(target, path); ok {
			v.SetString(text)
		}
	case reflect.Bool:
		if b, ok := Boolean(target); ok {
			v.SetBool(b)
		} else {
			d.fail(target, path, "must be true or false, not %s", Kind(target))
		}
	case reflect.Int:
		number, err := strconv.Atoi(target.Value)
		if err != nil || target.ShortTag() != "!!int" {
			d.fail(target, path, "must be a whole number, not %s", Kind(target))
			return
		}
		v.SetInt(int64(number))
	case reflect.Slice:
		d.list(target, path, v)
	case reflect.Map:
		d.table(target, path, v)
	}
}

func (d *Decoder) list(n *yaml.Node, path string, v reflect.Value) {
	if !d.is(n, path, yaml.SequenceNode, "a list") {
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.placed(at, c.Line)
		d.Value(c, at, out.Index(i))
	}
	v.Set(out)
}

func (d *Decoder) table(n *yaml.Node, path string, v reflect.Value) {
	if !d.is(n, path, yaml.MappingNode, "an object") {
		return
	}
	if v.Type().Elem().Kind() == reflect.Interface {
		if object, _ := d.free(n, path).(map[string]any); len(object) > 0 { // nil when it is too large
			v.Set(reflect.ValueOf(object).Convert(v.Type()))
		}
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, p := range d.pairs(n, path) {
		d.placed(join(path, p.key.Value), p.key.Line)
		value := reflect.New(v.Type().Elem()).Elem()
		d.Value(p.value, join(path, p.key.Value), value)
		out.SetMapIndex(reflect.ValueOf(p.key.Value), value)
	}
	v.Set(out)
}

func (d *Decoder) is(n *yaml.Node, path string, kind yaml.Kind, want string) bool {
	if n.Kind == kind {
		return true
	}
	d.fail(n, path, "must be %s, not %s", want, Kind(n))
	return false
}

// text reads a scalar that must be text. Numbers and booleans without quotes are
// errors, as in Amazon's nodeadm.
func (d *Decoder) text(n *yaml.Node, path string) (string, bool) {
	what := Kind(n)
	if _, is := Boolean(n); is {
		what = "a boolean"
	}
	switch {
	case n.Kind != yaml.ScalarNode:
		d.fail(n, path, "must be text, not %s", what)
		return "", false
	case what != "text":
		d.fail(n, path, "must be text, not %s; put %s in quotes", what, n.Value)
		return "", false
	}
	return n.Value, true
}

func (d *Decoder) free(n *yaml.Node, path string) any {
	target, done := d.follow(n, path)
	defer done()
	switch {
	case target == nil:
		return nil
	case target.Kind == yaml.MappingNode:
		out := map[string]any{}
		for _, p := range d.pairs(target, path) {
			out[p.key.Value] = d.free(p.value, join(path, p.key.Value))
		}
		return out
	case target.Kind == yaml.SequenceNode:
		out := make([]any, len(target.Content))
		for i, c := range target.Content {
			out[i] = d.free(c, fmt.Sprintf("%s[%d]", path, i))
		}
		return out
	}
	if b, ok := Boolean(target); ok {
		return b
	}
	switch target.ShortTag() {
	case "!!null", "!!int", "!!float":
		var value any
		if err := target.Decode(&value); err != nil {
			d.fail(target, path, "%v", err)
			return nil
		}
		return d.number(target, path, value)
	}
	return target.Value
}

// number converts all integers to one type. Values that JSON does not support are
// errors.
func (d *Decoder) number(n *yaml.Node, path string, v any) any {
	switch x := v.(type) {
	case int:
		return int64(x)
	case float64:
		if math.IsInf(x, 0) || math.IsNaN(x) {
			d.fail(n, path, "must be a finite number")
			return nil
		}
	}
	return v
}

// Boolean reads a boolean like Kubernetes, which uses YAML 1.1: y, yes, on and their
// opposites are booleans too, unless they are quoted.
func Boolean(n *yaml.Node) (value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Style&^(yaml.TaggedStyle|yaml.FlowStyle) != 0 { // quoted
		return false, false
	}
	if tag := n.ShortTag(); tag != "!!bool" && tag != "!!str" {
		return false, false
	}
	switch n.Value {
	case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
		return true, true
	case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
		return false, true
	}
	if n.ShortTag() != "!!bool" {
		return false, false
	}
	b, err := strconv.ParseBool(strings.ToLower(n.Value))
	return b, err == nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Kind returns the kind of a node for messages.
func Kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return Kind(n.Alias)
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "a boolean"
	case "!!int", "!!float":
		return "a number"
	default:
		return "text"
	}
}

func resolved(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// Child follows names into an object, also through aliases. It is nil where there is none.
func Child(n *yaml.Node, path ...string) *yaml.Node {
	n = resolved(n)
	for _, name := range path {
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		i := 0
		for i < len(n.Content) && n.Content[i].Value != name {
			i += 2
		}
		if i+1 >= len(n.Content) {
			return nil
		}
		n = resolved(n.Content[i+1])
	}
	return n
}

// Text is the text of a scalar below names, or empty.
func Text(n *yaml.Node, path ...string) string {
	if c := Child(n, path...); c != nil && c.Kind == yaml.ScalarNode {
		return c.Value
	}
	return ""
}
