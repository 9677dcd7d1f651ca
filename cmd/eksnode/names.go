//go:build !agent

package main

import (
	"errors"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsnames"
)

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

// missing refuses flags without a value. what says what the value is.
func missing(list ...[3]string) error {
	var errs []error
	for _, one := range list {
		if flag, value, what := one[0], one[1], one[2]; value == "" {
			errs = append(errs, fmt.Errorf("%s is missing; %s", flag, what))
		}
	}
	return errors.Join(errs...)
}

// roleForm is the form of --role: a name, or an ARN.
func roleForm(text string) error {
	if awsnames.RoleName().Check(text) == nil {
		return nil
	}
	return awsnames.RoleARN().Check(text)
}

// Helps of flags that mean the same in each command.
const (
	clusterHelp = "name of the EKS cluster"
	roleHelp    = "name or ARN of the nodes' IAM role"
)

// each is one given value for each element of a list.
func each(name string, values []string, check func(string) error) []given {
	var list []given
	for _, v := range values {
		list = append(list, given{name, v, check})
	}
	return list
}
