package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
)

// command is a command of eksnode, as its help describes it.
type command struct {
	// Name is without the program's name, such as "ami list".
	Name string
	// Short is the line in the list of commands.
	Short string
	// About are the paragraphs before the usage.
	About []string
	// Usage are the lines of the usage, Examples are lines as the help prints them.
	Usage    []string
	Examples string
	// Flags are the command's own, Global those of the commands above.
	Flags, Global []field
	// Below are the subcommands.
	Below []command
	extra
}

// Page is the name of the command's page in docs/reference/commands.
func (c command) Page() string { return "eksnode-" + strings.ReplaceAll(c.Name, " ", "-") + ".md" }

func (c command) all() []command {
	list := []command{c}
	for _, below := range c.Below {
		list = append(list, below.all()...)
	}
	return list
}

// helper prints the help of a command.
type helper func(arguments ...string) (string, error)

// readCommands builds the program and reads the help of each command.
func readCommands(ctx context.Context, root string) ([]command, error) {
	folder, err := os.MkdirTemp("", "eksnode-generate-*")
	if err != nil {
		return nil, fmt.Errorf("making a scratch folder: %w", err)
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "eksnode")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", program, "./cmd/eksnode")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the command: %w\n%s", err, output)
	}
	eksnode, err := readCommand(func(arguments ...string) (string, error) {
		help, err := exec.CommandContext(ctx, program, append([]string{"help"}, arguments...)...).Output()
		if err != nil {
			return "", fmt.Errorf("running eksnode help %s: %w", strings.Join(arguments, " "), err)
		}
		return string(help), nil
	})
	if err != nil {
		return nil, err
	}
	if len(eksnode.Below) == 0 {
		return nil, fmt.Errorf("reading the help of eksnode: no commands found")
	}
	return eksnode.Below, nil
}

var (
	// section is the heading of a part of a help text. Lists of subcommands may
	// have any title.
	section = regexp.MustCompile(`(?m)^(\S.*):\n((?:  .*\n)+)`)
	// listed is a line of a list: a subcommand, or a word that a paragraph explains.
	listed = regexp.MustCompile(`^  (\S+)  +(\S.*)$`)
	// flagLine is a line of a list of flags.
	flagLine = regexp.MustCompile(`^ +(-\w, )?(--[\w-]+)(?: (\S+))?  +(\S.*)$`)
)

func readCommand(help helper, names ...string) (command, error) {
	c := command{Name: strings.Join(names, " "), extra: extraOf(names)}
	text, err := help(names...)
	if err != nil {
		return c, err
	}
	about, rest, found := strings.Cut("\n"+text, "\nUsage:\n")
	if !found {
		return c, fmt.Errorf("reading the help of eksnode %s: no usage found", c.Name)
	}
	if about = strings.TrimSpace(about); about != "" {
		c.About = strings.Split(about, "\n\n")
	}
	for _, part := range section.FindAllStringSubmatch("Usage:\n"+rest, -1) {
		switch title, lines := part[1], part[2]; title {
		case "Usage":
			for line := range strings.Lines(lines) {
				c.Usage = append(c.Usage, strings.TrimSpace(line))
			}
		case "Examples":
			c.Examples = lines
		case "Flags":
			c.Flags = flagsIn(lines)
		case "Global Flags":
			c.Global = flagsIn(lines)
		default:
			if err := c.readBelow(help, names, lines); err != nil {
				return c, err
			}
		}
	}
	if c.Name == script {
		c.Flags = flagsIn(arguments.Usage(script))
	}
	return c, nil
}

// script is the command that parses its flags itself, so that the help of the
// other commands does not list them.
const script = "bootstrap.sh"

func (c *command) readBelow(help helper, names []string, lines string) error {
	for line := range strings.Lines(lines) {
		found := listed.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if found == nil || found[1] == "help" {
			continue
		}
		below, err := readCommand(help, append(slices.Clone(names), found[1])...)
		if err != nil {
			return err
		}
		below.Short = found[2]
		c.Below = append(c.Below, below)
	}
	return nil
}

// flagsIn reads a list of flags, without --help.
func flagsIn(lines string) []field {
	var flags []field
	for line := range strings.Lines(lines) {
		found := flagLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if found != nil && found[2] != "--help" {
			flags = append(flags, field{found[1] + found[2], found[3], found[4]})
		}
	}
	return flags
}

// extra is what a command's page says in addition to its help.
type extra struct {
	// Exits are the meanings of the exit codes 0, 1 and 2; "" is a code that the
	// command does not use.
	Exits [3]string
	// See are links to related pages.
	See []string
}

//go:embed commands.yaml
var commandsFile []byte

// extrasFile is commands.yaml, where a command names its links.
type extrasFile struct {
	Usual    [3]string
	Links    map[string]string
	Commands map[string]extra
}

// extras returns commands.yaml, with the links themselves.
var extras = sync.OnceValue(func() (file extrasFile) {
	if err := yaml.UnmarshalStrict(commandsFile, &file); err != nil {
		panic(err) // the file is part of the program
	}
	for name, e := range file.Commands {
		if e.Exits == [3]string{} {
			e.Exits = file.Usual
		}
		for i, page := range e.See {
			e.See[i] = file.Links[page]
		}
		file.Commands[name] = e
	}
	return file
})

// extraOf is a command's entry in commands.yaml, or its parent's.
func extraOf(names []string) extra {
	for n := len(names); n > 0; n-- {
		if e, found := extras().Commands[strings.Join(names[:n], " ")]; found {
			return e
		}
	}
	return extra{Exits: extras().Usual}
}
