package main

import (
	"cmp"
	_ "embed"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:embed help.txt
var helpFile string

// helpText is what help.txt has about a command.
type helpText struct {
	short          string
	long, examples []string
	linux          string // why the command needs Linux, and what to do instead
	flags          map[string]string
}

// everyCommand is the path of the flags of several commands.
const everyCommand = "*"

// readHelp returns the texts of commands by their paths.
func readHelp() map[string]*helpText {
	all := map[string]*helpText{}
	for _, file := range []string{helpFile, workstationHelp} {
		_, sections, _ := strings.Cut(file, "\n== ")
		for section := range strings.SplitSeq(sections, "\n== ") {
			paths, lines, _ := strings.Cut(strings.TrimSpace(section), "\n")
			list := strings.Split(paths, ", ")
			text := all[list[0]]
			if text == nil {
				text = &helpText{flags: map[string]string{}}
			}
			text.add(lines)
			for _, path := range list {
				all[path] = text
			}
		}
	}
	return all
}

func (t *helpText) add(lines string) {
	examples := false
	for line := range strings.SplitSeq(lines, "\n") {
		name, rest, _ := strings.Cut(line, ": ")
		flag, isFlag := strings.CutPrefix(name, "--")
		examples = examples || strings.HasPrefix(line, "  ")
		switch {
		case isFlag && !strings.Contains(flag, " "):
			t.flags[flag] = rest
		case name == "linux":
			t.linux = rest
		case t.short == "":
			t.short = line
		case examples:
			t.examples = append(t.examples, line)
		default:
			t.long = append(t.long, line)
		}
	}
}

// explain gives a command, its flags and its subcommands their texts. A list that code has
// set follows the text. Each description begins with the sentence in the overview.
func explain(cmd *cobra.Command, texts map[string]*helpText) {
	path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	if text, ok := texts[path]; ok {
		cmd.Short, cmd.Example = text.short, strings.Join(text.examples, "\n")
		if len(text.long) > 0 {
			cmd.Long = text.short + ".\n\n" + strings.Join(text.long, "\n") + cmd.Long
		}
		describe := func(f *pflag.Flag) {
			if f.Usage == "" || strings.HasPrefix(f.Usage, ":") {
				f.Usage = cmp.Or(text.flags[f.Name], texts[everyCommand].flags[f.Name]) + f.Usage
			}
		}
		cmd.Flags().VisitAll(describe)
		cmd.PersistentFlags().VisitAll(describe)
	}
	for _, sub := range cmd.Commands() {
		explain(sub, texts)
	}
}

// newCommand returns a command whose texts are in help.txt.
func newCommand(use string, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Args: args, RunE: run}
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }
