package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// errEmpty is why an empty value is refused: it comes from a script's variable
// that is not set, not from somebody who means the flag's default.
var errEmpty = errors.New("the value is empty; is a shell variable unset?")

// strict has every flag of a command and of its subcommands refuse values that
// say nothing, and every command arguments that are empty.
func strict(cmd *cobra.Command) {
	for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			f.Value = strictValue{f.Value, f}
			if f.DefValue == "[]" {
				f.DefValue = "" // help shows no default for an empty list
			}
		})
	}
	// Unknown subcommands are cobra's to refuse.
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(args); err != nil {
				return err
			}
			return check(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
}

// notEmpty refuses arguments that say nothing.
func notEmpty(args []string) error {
	for i, arg := range args {
		if strings.TrimSpace(arg) == "" {
			return fmt.Errorf("argument %d is empty; is a shell variable unset?", i+1)
		}
	}
	return nil
}

// emptyAllowed marks flags that take an empty value.
const emptyAllowed = "eksnode_empty_allowed"

// allowEmpty lets flags take an empty value, as the same flags of Amazon's
// programs do, where that means the default.
func allowEmpty(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		if err := cmd.Flags().SetAnnotation(name, emptyAllowed, []string{"true"}); err != nil {
			panic(err) // a flag's name is a constant
		}
	}
}

// strictValue is a flag's value that looks at texts before the flag reads them.
type strictValue struct {
	pflag.Value
	flag *pflag.Flag
}

// Set implements pflag.Value.
func (v strictValue) Set(text string) error {
	if text == "" && v.flag.Annotations[emptyAllowed] != nil {
		return v.Value.Set(text)
	}
	if strings.TrimSpace(text) == "" {
		return errEmpty
	}
	if err := v.check(text); err != nil {
		return err
	}
	err := v.Value.Set(text)
	switch {
	case err == nil:
		return nil
	case v.Type() == "bool":
		return fmt.Errorf("%q is neither true nor false", text)
	case v.Type() == "int" && errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%q is too large a number", text)
	case v.Type() == "int":
		return fmt.Errorf("%q is not a whole number", text)
	}
	return err
}

// check refuses what the flag would read as less than what is written.
func (v strictValue) check(text string) error {
	isList, isPairs := v.Type() == "stringSlice", v.Type() == "stringToString"
	if (isList || isPairs) && strings.ContainsAny(strings.TrimRight(text, "\r\n"), "\r\n") {
		return errors.New("the value has more than one line; separate names by commas")
	}
	elements := []string{text}
	if isList {
		var err error
		if elements, err = csv.NewReader(strings.NewReader(text)).Read(); err != nil {
			return fmt.Errorf("reading the list %q: %w", text, err)
		}
	}
	for _, e := range elements {
		if strings.TrimSpace(e) == "" {
			return fmt.Errorf("the list %q has an empty element", text)
		}
		if err := expanded(e); err != nil {
			return err
		}
	}
	if name, _, _ := strings.Cut(text, "="); isPairs && strings.TrimSpace(name) == "" {
		return fmt.Errorf("%q has no name before the equals sign", text)
	}
	return nil
}

// expanded refuses a home folder that only a shell knows: most shells replace
// the ~ at the beginning of an argument, and not behind an equals sign or comma.
func expanded(path string) error {
	if strings.HasPrefix(path, "~") {
		return fmt.Errorf("no shell has replaced the ~ of %q; write the folder, or $HOME", path)
	}
	return nil
}

// flagError says what is wrong with a flag, by its name.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		return fmt.Errorf("--%s: %w", value.GetFlag().Name, value.Unwrap())
	}
	return fmt.Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())
}
