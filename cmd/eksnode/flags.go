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

// errEmpty refuses an empty value: the value comes from a shell variable that is
// not set. Nobody writes an empty value for the flag's default.
var errEmpty = errors.New("the value is empty; is a shell variable unset?")

// strict has every flag of a command and of its subcommands refuse values that
// are empty or ambiguous, and every command arguments that are empty.
func strict(cmd *cobra.Command) {
	if !cmd.DisableFlagParsing { // otherwise cobra adds these when the command runs
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
	}
	for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			strict := strictValue{f.Value, f}
			if f.Value = strict; strict.isPairs() {
				f.Value = pairsValue{strict}
			}
			if f.DefValue == "[]" {
				f.DefValue = "" // help shows no default for an empty list
			}
		})
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(args); err != nil {
				return err
			}
			err := check(cmd, args)
			if err != nil && cobra.NoArgs(cmd, args) != nil && err.Error() == cobra.NoArgs(cmd, args).Error() {
				return wrongArgument(cmd, args[0])
			}
			return err
		}
	}
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
}

// notEmpty refuses empty arguments.
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

// allowEmpty lets flags take an empty value. In Amazon's programs, the same flags
// take an empty value for the default.
func allowEmpty(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		if err := cmd.Flags().SetAnnotation(name, emptyAllowed, []string{"true"}); err != nil {
			panic(err) // a flag's name is a constant
		}
	}
}

// strictValue is a flag's value that checks a text before the flag reads the text.
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

// isList says whether the flag takes a list.
func (v strictValue) isList() bool { return v.Value.Type() == "stringSlice" }

// isPairs says whether the flag takes pairs of name and value.
func (v strictValue) isPairs() bool {
	return v.Value.Type() == "stringToString" || v.Value.Type() == nameFile
}

// pairsValue is the value of a flag that takes pairs, and more than once.
type pairsValue struct{ strictValue }

// Type implements pflag.Value.
func (v pairsValue) Type() string {
	if v.Value.Type() == nameFile {
		return nameFile
	}
	return "name=value"
}

// GetSlice implements cobra.SliceValue: completion offers such a flag again.
func (v pairsValue) GetSlice() []string { return []string{v.String()} }

// check refuses a text when the flag would read only a part.
func (v strictValue) check(text string) error {
	isList, isPairs := v.isList(), v.Value.Type() == "stringToString"
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

// expanded refuses a ~ that only a shell replaces. Most shells replace ~ at the
// beginning of an argument, and not after an equals sign or comma.
func expanded(path string) error {
	if strings.HasPrefix(path, "~") {
		return fmt.Errorf("the shell did not replace the ~ in %q; write $HOME instead", path)
	}
	return nil
}
