package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// commandPage is what a subcommand says of itself.
type commandPage struct{ Name, Help string }

// subcommand is a line of the list in `eksnode --help`.
var subcommand = regexp.MustCompile(`(?m)^  ([a-z-]+) +\S`)

// commandHelp builds the command and asks it about each of its subcommands and
// theirs.
func commandHelp(ctx context.Context, root string) ([]commandPage, error) {
	folder, err := os.MkdirTemp("", "eksnode-generate-*")
	if err != nil {
		return nil, fmt.Errorf("making a scratch folder: %w", err)
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "eksnode")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/eksnode")
	build.Dir = root
	if said, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the command: %w\n%s", err, said)
	}
	ask := func(args ...string) (string, error) {
		said, err := exec.CommandContext(ctx, program, append(args, "--help")...).Output()
		if err != nil {
			return "", fmt.Errorf("asking the command about %q: %w", args, err)
		}
		return strings.TrimSpace(string(said)) + "\n", nil
	}
	overview, err := ask()
	if err != nil {
		return nil, err
	}
	pages, err := subcommandHelp(ask, overview)
	if err == nil && pages == nil {
		err = fmt.Errorf("asking the command: it lists no subcommands:\n%s", overview)
	}
	return pages, err
}

// subcommandHelp asks about the subcommands that a help text lists, and about
// theirs.
func subcommandHelp(ask func(...string) (string, error), help string, parents ...string) ([]commandPage, error) {
	_, list, _ := strings.Cut(help, strings.Join(append([]string{"eksnode"}, parents...), " ")+" [command]\n")
	list, _, _ = strings.Cut(list, "\nFlags:\n")
	var pages []commandPage
	for _, found := range subcommand.FindAllStringSubmatch(list, -1) {
		if found[1] == "help" || found[1] == "eksnode" { // the latter is an example
			continue
		}
		name := append(parents[:len(parents):len(parents)], found[1])
		text, err := ask(name...)
		if err != nil {
			return nil, err
		}
		below, err := subcommandHelp(ask, text, name...)
		if err != nil {
			return nil, err
		}
		pages = append(append(pages, commandPage{strings.Join(name, " "), text}), below...)
	}
	return pages, nil
}
