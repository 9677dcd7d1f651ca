// Package validate is what the components' Prepare methods share: telling values
// that are not known yet from wrong ones, and handing Packer every error at
// once.
package validate

import (
	"maps"
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

// KnownIn is the map without the values that are not known yet.
func KnownIn(m map[string]string) map[string]string {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(_, v string) bool { return IsUnknown(v) })
	return m
}
