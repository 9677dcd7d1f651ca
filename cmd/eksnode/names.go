//go:build !agent

package main

import "fmt"

// given is a value from the command line, the flag or argument that has the value,
// and the check of its form.
type given struct {
	name, value string
	check       func(string) error
}

// wellFormed returns an error for the first value with a wrong form. Empty values
// were not given. Commands call wellFormed before they call AWS.
func wellFormed(list ...given) error {
	for _, g := range list {
		if g.value == "" {
			continue
		}
		if err := g.check(g.value); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return nil
}

// each is one given value for each element of a list.
func each(name string, values []string, check func(string) error) []given {
	var list []given
	for _, v := range values {
		list = append(list, given{name, v, check})
	}
	return list
}
