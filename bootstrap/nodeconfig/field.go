package nodeconfig

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// decoder fills structs from YAML nodes and collects all mistakes. No YAML library
// reports the line, the path and the nearest name of an unknown field together.
type decoder struct {
	errs []error
	left *budget
	// placed records the line of a path.
	placed func(path string, line int)
	// within lists the aliases that are being followed, to detect cycles.
	within []*yaml.Node
	depth  int
}

func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	path = cmp.Or(path, "the document")
	switch {
	case len(d.errs) < maxProblems:
		d.errs = append(d.errs, fmt.Errorf("line %d: %s: %s", n.Line, Printable(path), Printable(fmt.Sprintf(format, args...))))
	case len(d.errs) == maxProblems:
		d.errs = append(d.errs, fmt.Errorf("line %d: further problems are not listed", n.Line))
	}
}

// pay reports whether a value is still within the limits. A value costs its bytes, the
// bytes of its path, and the size of a node.
func (d *decoder) pay(n *yaml.Node, path string) bool {
	if d.left.values < 0 {
		return false // already reported
	}
	d.left.values -= 64 + len(n.Value) + len(path)
	if d.left.values < 0 {
		d.fail(n, "", "the document is too large: with aliases and merge keys followed it has more than %d KiB", maxValues>>10)
	}
	return d.left.values >= 0
}

// follow resolves an alias. Call done after reading its content.
func (d *decoder) follow(n *yaml.Node, path string) (target *yaml.Node, done func()) {
	nothing := func() {}
	if d.depth >= maxNesting {
		d.fail(n, "", "the document nests more than %d deep", maxNesting)
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
func (d *decoder) pairs(n *yaml.Node, path string) []pair {
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

func (d *decoder) inherited(n *yaml.Node, path string) []pair {
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
		d.fail(n, path, "<< takes an object, not %s", describe(target))
		return nil
	}
}

// withoutUs maps unsupported fields of newer versions of amazon-eks-ami, or of
// eks-hybrid's nodeadm, to an explanation.
var withoutUs = map[string]string{
	"spec.hybrid":           "is for machines outside of AWS, which eks-hybrid's nodeadm joins; EC2 instances need no such field",
	"spec.cluster.region":   "is for machines outside of AWS, which eks-hybrid's nodeadm joins; EC2 instances know their region",
	"spec.instance.storage": "is not supported; format and mount EBS volumes in a user data script, which runs before containerd and the kubelet start",
}

// object fills the struct that into points to.
func (d *decoder) object(n *yaml.Node, path string, into any) {
	v := reflect.ValueOf(into).Elem()
	fields := fieldsOf(v.Type())
	for _, p := range d.pairs(n, path) {
		i, known := fields[p.key.Value]
		if why := withoutUs[join(path, p.key.Value)]; why != "" {
			d.fail(p.key, join(path, p.key.Value), "%s", why)
			continue
		}
		if !known {
			d.fail(p.key, join(path, p.key.Value), "unknown field; %s", nearest(p.key.Value, fields))
			continue
		}
		d.placed(join(path, p.key.Value), p.key.Line)
		d.value(p.value, join(path, p.key.Value), v.Field(i))
	}
}

// value fills one value. A null value has no effect, as in Kubernetes.
func (d *decoder) value(n *yaml.Node, path string, v reflect.Value) {
	target, done := d.follow(n, path)
	defer done()
	if target == nil || target.Kind == yaml.ScalarNode && target.ShortTag() == "!!null" {
		return
	}
	switch into := v.Addr().Interface().(type) {
	case *Document:
		if d.is(target, path, yaml.MappingNode, "an object") {
			if object, _ := d.free(target, path).(map[string]any); len(object) > 0 { // nil when it is too large
				*into = object
			}
		}
		return
	case *Base64:
		if text, ok := d.text(target, path); ok {
			*into = d.base64(target, path, text)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if d.is(target, path, yaml.MappingNode, "an object") {
			d.object(target, path, v.Addr().Interface())
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(target, path, v.Elem())
	case reflect.String:
		if text, ok := d.text(target, path); ok {
			v.SetString(text)
		}
	case reflect.Bool:
		if b, ok := boolean(target); ok {
			v.SetBool(b)
		} else {
			d.fail(target, path, "must be true or false, not %s", describe(target))
		}
	case reflect.Slice:
		d.list(target, path, v)
	case reflect.Map:
		d.table(target, path, v)
	}
}

func (d *decoder) list(n *yaml.Node, path string, v reflect.Value) {
	if !d.is(n, path, yaml.SequenceNode, "a list") {
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.placed(at, c.Line)
		d.value(c, at, out.Index(i))
	}
	v.Set(out)
}

func (d *decoder) table(n *yaml.Node, path string, v reflect.Value) {
	if !d.is(n, path, yaml.MappingNode, "an object") {
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, p := range d.pairs(n, path) {
		d.placed(join(path, p.key.Value), p.key.Line)
		value := reflect.New(v.Type().Elem()).Elem()
		d.value(p.value, join(path, p.key.Value), value)
		out.SetMapIndex(reflect.ValueOf(p.key.Value), value)
	}
	v.Set(out)
}

func (d *decoder) is(n *yaml.Node, path string, kind yaml.Kind, want string) bool {
	if n.Kind == kind {
		return true
	}
	d.fail(n, path, "must be %s, not %s", want, describe(n))
	return false
}

// text reads a scalar that must be text. Numbers and booleans without quotes are
// errors, as in Amazon's nodeadm.
func (d *decoder) text(n *yaml.Node, path string) (string, bool) {
	what := describe(n)
	if _, is := boolean(n); is {
		what = "a boolean"
	}
	switch {
	case n.Kind != yaml.ScalarNode:
		d.fail(n, path, "must be text, not %s", what)
		return "", false
	case what != "text":
		d.fail(n, path, "must be text, not %s; put %s in quotes", what, Printable(n.Value))
		return "", false
	}
	return n.Value, true
}

func (d *decoder) base64(n *yaml.Node, path, text string) Base64 {
	data, err := Unbase64(text)
	if err != nil {
		d.fail(n, path, "the value is not base64: %v", err)
	}
	return data
}

// Unbase64 decodes base64 with any line breaks and with or without padding.
func Unbase64(text string) ([]byte, error) {
	compact := strings.Join(strings.Fields(text), "")
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(compact, "="))
}

func (d *decoder) free(n *yaml.Node, path string) any {
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
	if b, ok := boolean(target); ok {
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
func (d *decoder) number(n *yaml.Node, path string, v any) any {
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

// boolean reads a boolean like Kubernetes, which uses YAML 1.1: y, yes, on and their
// opposites are booleans too, unless they are quoted.
func boolean(n *yaml.Node) (value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
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

// fieldsOf maps a struct's JSON names to its fields.
func fieldsOf(t reflect.Type) map[string]int {
	fields := map[string]int{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if !t.Field(i).IsExported() {
			continue
		}
		fields[name] = i
	}
	return fields
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// nearest returns "did you mean NAME?" for an unknown name, or the list of known names.
func nearest[V any](name string, known map[string]V) string {
	names := slices.Sorted(maps.Keys(known))
	if best := show.Nearest(name, names); best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "known are " + strings.Join(names, ", ")
}
