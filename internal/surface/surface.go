// Package surface names options of eksnode in errors. HCL and JSON write an
// option by its field, kubernetes_version, and the command by its flag,
// --kubernetes-version. An error made by Errorf can be written both ways, so no
// package below the surfaces knows which one the person used.
package surface

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Name is an option by its field in HCL, such as kubernetes_version. It may
// have a key, versions["kubelet"], and several names may be joined by " and ".
type Name string

// Key is one entry of an option that is a map.
func (n Name) Key(key string) Name { return Name(fmt.Sprintf("%s[%q]", n, key)) }

// Flag is the option as a flag.
func (n Name) Flag() string {
	parts := strings.Split(string(n), " and ")
	for i, part := range parts {
		name, key, hasKey := strings.Cut(part, "[")
		if parts[i] = "--" + strings.ReplaceAll(name, "_", "-"); hasKey {
			parts[i] += "[" + key
		}
	}
	return strings.Join(parts, " and ")
}

// Is is the option with a value, as HCL or a shell takes it.
func (n Name) Is(value string) Words {
	return Words{fmt.Sprintf("%s = %q", n, value), n.Flag() + " " + value}
}

// On is the option that is a switch, turned on.
func (n Name) On() Words { return Words{string(n) + " = true", n.Flag()} }

// Words are a part of an error that the surfaces do not share.
type Words struct{ HCL, Flags string }

// String implements fmt.Stringer.
func (w Words) String() string { return w.HCL }

// Field says "field" in HCL and "flag" on a command line.
func Field() Words { return Words{"field", "flag"} }

// failure is an error that the surfaces write differently.
type failure struct {
	error        // in HCL
	flags string // for a command line
}

// Unwrap lets errors.Is and errors.As look into the error.
func (f *failure) Unwrap() error { return f.error }

// Errorf is fmt.Errorf for an error about options: arguments of the types Name
// and Words are what a command line writes differently.
func Errorf(format string, args ...any) error {
	typed := slices.Clone(args)
	for i, arg := range typed {
		switch arg := arg.(type) {
		case Name:
			typed[i] = arg.Flag()
		case Words:
			typed[i] = arg.Flags
		case error:
			typed[i] = errors.New(InFlags(arg))
		}
	}
	return &failure{fmt.Errorf(format, args...), fmt.Errorf(format, typed...).Error()}
}

// InFlags is an error's text for somebody who used flags.
func InFlags(err error) string {
	if err == nil {
		return ""
	}
	return Rewrite(err.Error(), err)
}

// Rewrite writes a text, which quotes errors, for somebody who used flags.
func Rewrite(text string, errs ...error) string {
	var found []*failure
	for _, err := range errs {
		found = append(found, failures(err)...)
	}
	// A text that is part of another is not what that one begins with.
	slices.SortStableFunc(found, func(a, b *failure) int { return cmp.Compare(len(b.Error()), len(a.Error())) })
	var pairs []string
	for _, f := range found {
		pairs = append(pairs, f.Error(), f.flags)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// failures are the outermost errors of Errorf in an error.
func failures(err error) []*failure {
	var found []*failure
	switch err := err.(type) {
	case *failure:
		found = append(found, err)
	case interface{ Unwrap() []error }:
		for _, part := range err.Unwrap() {
			found = append(found, failures(part)...)
		}
	case interface{ Unwrap() error }:
		found = failures(err.Unwrap())
	}
	return found
}
