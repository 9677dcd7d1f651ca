package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
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

func (v strictValue) isPairs() bool {
	return v.Value.Type() == "stringToString" || v.Value.Type() == nameFile
}

// pairsValue is the value of a flag that takes pairs, and more than once.
type pairsValue struct{ strictValue }

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
	isList, isPairs := v.Value.Type() == "stringSlice", v.Value.Type() == "stringToString"
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
	form, isFormed := v.Value.(formed)
	for _, e := range elements {
		if strings.TrimSpace(e) == "" {
			return fmt.Errorf("the list %q has an empty element", text)
		}
		if err := expanded(e); err != nil {
			return err
		}
		if isFormed {
			if err := form.check(e); err != nil {
				return err
			}
		}
	}
	if name, _, _ := strings.Cut(text, "="); isPairs && strings.TrimSpace(name) == "" {
		return fmt.Errorf("%q has no name before the equals sign", text)
	}
	return nil
}

// formed is the value of a flag that refuses what cannot exist.
type formed struct {
	pflag.Value
	check func(string) error
}

// forms has flags refuse values, or elements of a list, before any call to AWS.
func forms(cmd *cobra.Command, checks map[string]func(string) error) {
	for name, check := range checks {
		f := cmd.Flags().Lookup(name)
		f.Value = formed{f.Value, check}
	}
}

// given lists those of the flags that a person set.
func given(cmd *cobra.Command, flags ...string) []string {
	set := slices.DeleteFunc(slices.Clone(flags), func(name string) bool { return !cmd.Flags().Changed(name) })
	return show.Each(set, func(name string) string { return "--" + name })
}

// notWith refuses flags that have no effect with another flag.
func notWith(cmd *cobra.Command, other string, flags ...string) error {
	if set := given(cmd, flags...); len(set) > 0 {
		return fmt.Errorf("%s has no effect with --%s", set[0], other)
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
		hint := path + " --help lists the flags"
		if info, err := os.Stat(arg); err == nil {
			flag := "disk"
			if info.IsDir() {
				flag = "root"
			}
			if cmd.Flags().Lookup(flag) != nil {
				hint = fmt.Sprintf("did you mean --%s %s? %s", flag, arg, hint)
			}
		}
		return fmt.Errorf("%s takes no arguments such as %q; %s", path, arg, hint)
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
			return fmt.Errorf("%s takes only %s; %q is one argument too many; %[1]s --help shows the usage",
				cmd.CommandPath(), what, args[count])
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

// stdout is standard output. A reader such as head may close the pipe early. Then
// the rest of the output is dropped, and the exit code stays that of the result.
type stdout struct {
	io.Writer
	closed bool
	// failed is the first error other than a closed pipe.
	failed error
}

func (s *stdout) Write(text []byte) (int, error) {
	if s.closed {
		return len(text), nil
	}
	n, err := s.Writer.Write(text)
	switch {
	case errors.Is(err, syscall.EPIPE):
		s.closed = true
		return len(text), nil
	case err != nil && s.failed == nil:
		s.failed = err
	}
	return n, err
}

// standardInput returns standard input. A read ends when the command is interrupted.
func standardInput(cmd *cobra.Command) io.Reader { return reading{cmd.Context(), cmd.InOrStdin()} }

// reading ends a read when the context ends: a terminal or a pipe may never send
// anything.
type reading struct {
	ctx context.Context
	in  io.Reader
}

func (r reading) Read(p []byte) (int, error) {
	text, err := agent.Await(r.ctx, func() ([]byte, error) {
		text := make([]byte, len(p))
		n, err := r.in.Read(text)
		return text[:n], err
	})
	return copy(p, text), err
}
