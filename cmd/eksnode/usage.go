package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// flagError adds to pflag's error which flag was meant and where the flags are
// listed.
func flagError(cmd *cobra.Command, err error) error {
	hint := cmd.CommandPath() + " --help lists the flags"
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &value):
		return fmt.Errorf("--%s: %w", value.GetFlag().Name, value.Unwrap())
	case errors.As(err, &missing):
		return fmt.Errorf("--%s needs a value; %s", missing.GetFlag().Name, hint)
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				names = append(names, f.Name)
			}
		})
		if best := show.Nearest(unknown.GetSpecifiedName(), names); best != "" {
			return fmt.Errorf("%w; did you mean --%s? %s", err, best, hint)
		}
	}
	return fmt.Errorf("%w; %s", err, hint)
}

// wrongArgument is the error about an argument of a command that takes none: in a
// command with subcommands the argument is a wrong name.
func wrongArgument(cmd *cobra.Command, arg string) error {
	path := cmd.CommandPath()
	if !cmd.HasAvailableSubCommands() {
		return fmt.Errorf("%s takes no arguments such as %q; %[1]s --help lists the flags", path, arg)
	}
	hint := fmt.Sprintf("%s --help lists the commands", path)
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	if best := show.Nearest(arg, names); best != "" {
		hint = fmt.Sprintf("did you mean %s? %s", best, hint)
	}
	return fmt.Errorf("unknown command %q for %q; %s", arg, path, hint)
}

// named refuses another number of arguments than a command needs. what says what
// the arguments are.
func named(what string, count int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < count:
			return fmt.Errorf("%s needs %s; %[1]s --help shows the usage", cmd.CommandPath(), what)
		case len(args) > count:
			return fmt.Errorf("%s takes only %s; %q is one argument too many; %[1]s --help shows the usage", cmd.CommandPath(), what, args[count])
		}
		return nil
	}
}

// oneOf refuses everything but one argument that is known.
func oneOf(what string, known []string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := named(fmt.Sprintf("%s (%s)", what, strings.Join(known, ", ")), 1)(cmd, args); err != nil {
			return err
		}
		if !slices.Contains(known, args[0]) {
			return fmt.Errorf("%s: %q is not known; known: %s", cmd.CommandPath(), args[0], strings.Join(known, ", "))
		}
		return nil
	}
}
