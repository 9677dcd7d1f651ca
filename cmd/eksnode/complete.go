package main

import (
	"cmp"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// declare registers what each flag and argument completes. One without an entry takes
// free text, and completes nothing.
func declare(cmd *cobra.Command) {
	declared := declaredValues()
	maps.Copy(declared, workstationValues())
	declareIn(cmd, declared)
	cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
}

func declareIn(cmd *cobra.Command, declared map[string]cobra.CompletionFunc) {
	path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if err := cmd.RegisterFlagCompletionFunc(f.Name, completionOf(f, path, declared)); err != nil {
			panic(err) // the flag is declared twice
		}
	})
	if cmd.ValidArgsFunction = declared[path]; cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		declareIn(sub, declared)
	}
}

// completionOf returns what a flag completes: by the flag's type, by the command
// and the flag, or by the flag alone.
func completionOf(f *pflag.Flag, path string, declared map[string]cobra.CompletionFunc) cobra.CompletionFunc {
	if f.Value.Type() == "bool" {
		return words("true", "false")
	}
	if v, strict := f.Value.(strictValue); strict {
		if one, ok := v.Value.(choice); ok {
			return words(one.known...)
		}
	}
	complete := declared[path+" --"+f.Name]
	if complete == nil {
		complete = declared["--"+f.Name]
	}
	if complete == nil {
		complete = cobra.NoFileCompletions
	}
	if f.Value.Type() == "stringSlice" || f.Value.Type() == "name=value" {
		complete = elements(f, complete)
	}
	return complete
}

// words completes a closed set of values. A description may follow a value after
// a tab.
func words(values ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return begin(begun, values), cobra.ShellCompDirectiveNoFileComp
	}
}

// each completes the words of a list.
func each[T any](list []T, word func(T) string) cobra.CompletionFunc {
	return words(show.Each(list, word)...)
}

// beginnings completes the beginnings of values: no space follows.
func beginnings(values ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return begin(begun, values), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

func begin(begun string, values []string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !strings.HasPrefix(v, begun) })
}

// files completes files, only those with one of the extensions if there are any.
func files(extensions ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		if len(extensions) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

func folders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// once completes the first argument only.
func once(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, begun)
	}
}

// elements completes the last element of a list with commas, without the elements
// that the list or an earlier flag already has.
func elements(f *pflag.Flag, complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		at := strings.LastIndex(begun, ",") + 1
		values, directive := complete(cmd, args, begun[at:])
		if directive == cobra.ShellCompDirectiveFilterFileExt {
			if at == 0 {
				return values, directive
			}
			values, directive = paths(begun[at:], values), cobra.ShellCompDirectiveNoFileComp
		}
		taken := strings.Split(begun[:at], ",")
		if f.Changed {
			taken = append(taken, strings.Split(strings.Trim(f.Value.String(), "[]"), ",")...)
		}
		var left []string
		for _, value := range values {
			name, _, _ := strings.Cut(value, "\t")
			isTaken := func(t string) bool {
				return t == name || strings.HasSuffix(name, "=") && strings.HasPrefix(t, name)
			}
			if !slices.ContainsFunc(taken, isTaken) {
				left = append(left, begun[:at]+value)
			}
		}
		return left, directive | cobra.ShellCompDirectiveNoSpace
	}
}

func namedFiles(extensions ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		at := strings.Index(begun, "=") + 1
		if at == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		values := paths(begun[at:], extensions)
		for i := range values {
			values[i] = begun[:at] + values[i]
		}
		return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// paths lists the files and folders that a path begins, where shells see no path
// because a text precedes it.
func paths(begun string, extensions []string) []string {
	folder, base := filepath.Split(begun)
	entries, err := os.ReadDir(cmp.Or(folder, "."))
	if err != nil {
		return nil // no completion
	}
	var list []string
	for _, e := range entries {
		name := e.Name()
		info, err := os.Stat(filepath.Join(folder, name))
		switch {
		case err != nil, !strings.HasPrefix(name, base), strings.HasPrefix(name, ".") && base == "":
		case info.IsDir():
			list = append(list, folder+name+"/")
		case slices.Contains(extensions, strings.TrimPrefix(filepath.Ext(name), ".")):
			list = append(list, folder+name)
		}
	}
	return list
}

func shells() []string { return []string{"bash", "zsh", "fish", "powershell"} }

func completionCommand() *cobra.Command {
	return newCommand("completion SHELL", oneOf("a shell", shells()), func(cmd *cobra.Command, args []string) error {
		out := cmd.OutOrStdout()
		switch args[0] {
		case "bash":
			return writeBashScript(cmd.Root(), out)
		case "zsh":
			return cmd.Root().GenZshCompletion(out)
		case "fish":
			return cmd.Root().GenFishCompletion(out, true)
		default:
			return cmd.Root().GenPowerShellCompletionWithDesc(out)
		}
	})
}

// writeBashScript writes cobra's script for bash with one change: bash's printf %q
// escapes commas, so in cobra's script nothing matches after a comma in a list.
func writeBashScript(root *cobra.Command, out io.Writer) error {
	var script strings.Builder
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return err
	}
	const (
		begun  = `comp=$(printf "%q" "${compline%%$tab*}")`
		only   = `COMPREPLY[0]=$(printf "%q" "${COMPREPLY[0]}")`
		single = `COMPREPLY[0]=$(printf "%q" "${COMPREPLY[0]%%$tab*}")`
		commas = "; COMPREPLY[0]=${COMPREPLY[0]//\\\\,/,}"
	)
	changes := strings.NewReplacer(begun, begun+"; comp=${comp//\\\\,/,}", only, only+commas, single, single+commas)
	_, err := changes.WriteString(out, script.String())
	return err
}
