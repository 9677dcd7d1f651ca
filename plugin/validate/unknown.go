// Package validate has the helpers of the components' Prepare methods: they
// recognize values that are not known yet, and return every error at once.
package validate

import (
	"reflect"
	"slices"
	"strings"
)

// Unknown is the text that Packer's core puts in place of a string that is not
// known at validate time (hcl2template/shim in Packer's sources). An output of a
// data source is replaced as a whole; a value of a builder (build.User) also
// within a longer string. Unknown numbers arrive as 0, unknown booleans as false,
// unknown lists and maps empty.
const Unknown = "<unknown>"

// IsUnknown reports whether s is not known yet, so that its form cannot be
// checked. Packer calls Prepare again with the known value before the build.
func IsUnknown(s string) bool { return strings.Contains(s, Unknown) }

// Known returns s, or "" when s is not known yet.
func Known(s string) string {
	if IsUnknown(s) {
		return ""
	}
	return s
}

// KnownOf is the list without the strings that are not known yet.
func KnownOf(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), IsUnknown)
}

// KnownFields is a copy of a struct in which no field has what is not known yet:
// texts are empty, lists and maps lack those entries. Structs in it are looked
// through, pointers are not.
func KnownFields[T any](fields T) T {
	forget(reflect.ValueOf(&fields).Elem())
	return fields
}

// forget takes out of v what is not known yet. Lists and maps are copied first.
func forget(v reflect.Value) {
	switch list, isList := reflect.TypeAssert[[]string](v); {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				forget(v.Field(i))
			}
		}
	case v.Kind() == reflect.String:
		v.SetString(Known(v.String()))
	case isList:
		v.Set(reflect.ValueOf(KnownOf(list)))
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.String && !v.IsNil():
		known := reflect.MakeMap(v.Type())
		for entry := v.MapRange(); entry.Next(); {
			if !IsUnknown(entry.Value().String()) {
				known.SetMapIndex(entry.Key(), entry.Value())
			}
		}
		v.Set(known)
	}
}
