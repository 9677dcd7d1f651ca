package endpoint

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// tree holds a query's parameters, split at their dots: "Filter.1.Value.2" is a
// value four levels down.
type tree struct {
	path     string
	value    *string
	children map[string]*tree
}

// decodeQuery reads parameters into a struct. The tag `query` names a field's
// parameter. Lists are numbered from 1. A field is a struct, a slice, a string,
// a number, a bool, or a pointer to one of these; the pointer is nil when the
// parameter is missing. A parameter without a field, or with a wrong number or
// form, is an error.
func decodeQuery(values url.Values, into any) error {
	root := &tree{}
	for name, all := range values {
		if len(all) != 1 {
			return fmt.Errorf("the parameter %s, given %d times", name, len(all))
		}
		root.add(name, all[0])
	}
	return root.decode(reflect.ValueOf(into).Elem())
}

func (t *tree) add(name, value string) {
	node := t
	for part := range strings.SplitSeq(name, ".") {
		child := node.children[part]
		if child == nil {
			child = &tree{path: strings.TrimPrefix(node.path+"."+part, ".")}
			if node.children == nil {
				node.children = map[string]*tree{}
			}
			node.children[part] = child
		}
		node = child
	}
	node.value = &value
}

func (t *tree) decode(into reflect.Value) error {
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return t.decode(into.Elem())
	case reflect.Struct:
		return t.decodeStruct(into)
	case reflect.Slice:
		return t.decodeSlice(into)
	}
	if t.children != nil {
		return fmt.Errorf("the parameter %s with parts", t.path)
	}
	return t.decodeScalar(into)
}

func (t *tree) decodeStruct(into reflect.Value) error {
	if t.value != nil {
		return fmt.Errorf("the parameter %s without parts", t.path)
	}
	for _, name := range slices.Sorted(maps.Keys(t.children)) {
		child := t.children[name]
		fields := reflect.VisibleFields(into.Type())
		index := slices.IndexFunc(fields, func(field reflect.StructField) bool {
			return field.Tag.Get("query") == name
		})
		if index < 0 {
			return fmt.Errorf("the parameter %s", child.path)
		}
		if err := child.decode(into.FieldByIndex(fields[index].Index)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) decodeSlice(into reflect.Value) error {
	if t.value != nil {
		return fmt.Errorf("the parameter %s without a number", t.path)
	}
	into.Set(reflect.MakeSlice(into.Type(), len(t.children), len(t.children)))
	for i := range len(t.children) {
		child := t.children[strconv.Itoa(i+1)]
		if child == nil {
			return fmt.Errorf("the parameter %s has the numbers %q", t.path, slices.Sorted(maps.Keys(t.children)))
		}
		if err := child.decode(into.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) decodeScalar(into reflect.Value) (err error) {
	switch into.Kind() {
	case reflect.String:
		into.SetString(*t.value)
	case reflect.Bool:
		var value bool
		value, err = strconv.ParseBool(*t.value)
		into.SetBool(value)
	case reflect.Int:
		var value int
		value, err = strconv.Atoi(*t.value)
		into.SetInt(int64(value))
	default:
		err = fmt.Errorf("a field of kind %s", into.Kind())
	}
	if err != nil {
		return fmt.Errorf("the parameter %s=%s: %w", t.path, *t.value, err)
	}
	return nil
}
