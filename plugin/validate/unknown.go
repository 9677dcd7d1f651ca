// Package validate is what the components' Prepare methods share: telling values
// that are not known yet from wrong ones, and handing Packer every error at
// once.
package validate

import (
	"reflect"
	"slices"
	"strings"
)

// unknown is what Packer's core puts in the place of a string that depends on
// something not known at validate time: a data source's answer becomes it as a
// whole, a builder's (build.User) also within a longer string
// (hcl2template/shim in Packer's sources). Unknown numbers arrive as 0, unknown
// booleans as false, unknown lists and maps empty: those need no care where
// the zero value is valid.
const unknown = "<unknown>"

// IsUnknown says that s is not known yet: nothing about its form can be
// checked. It will be known when Packer calls Prepare again before the build.
func IsUnknown(s string) bool { return strings.Contains(s, unknown) }

// Known is s, or "" when s is not known yet.
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
