package checks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// judge checks that readers can run the commands in pages unchanged.
type judge struct{ t *testing.T }

// program is the command as users build it, below the repository's root.
var program = sync.OnceValue(func() string {
	out, err := exec.Command("make", "--directory", root, "bin/eksnode").CombinedOutput()
	if err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	return "bin/eksnode"
})

// The program contains the patterns of secrets. Nothing exempts it from a search.
func TestEksnodeItselfHasNoSecrets(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "etc"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc", "passwd"), nil, 0o644))
	write(t, filepath.Join(root, "eksnode"), read(t, program()))
	h := hosttest.Mounted(t, root)
	items, err := scrub.Spec{Only: []string{"secrets-left"}}.Items(scrub.ToAudit, nil)
	require.NoError(t, err)
	require.Empty(t, plan.Make(t.Context(), h, items))
}

// wrong returns what is wrong with a command, or "". An unknown program is
// wrong, so that no page has an unchecked command.
func (j judge) wrong(line string) string {
	words := strings.Fields(line)
	if words[0] == "sudo" {
		words = words[1:]
		if words[0] == "-E" {
			words = words[1:]
		}
	}
	switch words[0] {
	case "make":
		return j.make(words[1:])
	case "eksnode":
		return j.command(words[1:])
	case "packer":
		return j.packer(words[1:])
	case "go":
		return j.goTool(words[1:])
	default:
		return "no check for the program " + words[0]
	}
}

// make checks that a target has a line in make's help, and that the makefile names the
// variables. Make exports them to tests.
func (j judge) make(args []string) string {
	for _, arg := range args {
		if variable, _, is := strings.Cut(arg, "="); is {
			if !regexp.MustCompile(`\b` + variable + `\b`).MatchString(read(j.t, "GNUmakefile")) {
				return "the makefile has no variable " + variable
			}
		} else if !slices.Contains(targets(), arg) {
			return "make has no target " + arg
		}
	}
	return ""
}

// targets are the targets of make's help.
var targets = sync.OnceValue(func() (all []string) {
	out, err := exec.Command("make", "--directory", root, "--no-print-directory", "help").CombinedOutput()
	if err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	for _, row := range regexp.MustCompile(`(?m)^  make (\S+) +\w`).FindAllStringSubmatch(string(out), -1) {
		all = append(all, row[1])
	}
	return all
})

var flagLine = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)( \S+)?  `)

// command checks a subcommand and its flags against the help of the built
// command.
func (j judge) command(words []string) string {
	if len(words) == 0 {
		return "eksnode needs a subcommand"
	}
	help, err := j.try(program(), words[0], "--help")
	if err != nil || !strings.Contains(help, "eksnode "+words[0]) {
		return "eksnode has no subcommand " + words[0]
	}
	for len(words) > 1 && strings.Contains(help, "eksnode "+words[0]+" [command]") && !strings.HasPrefix(words[1], "-") {
		below := words[0] + " " + words[1]
		if help, err = j.try(program(), append(strings.Fields(below), "--help")...); err != nil || !strings.Contains(help, "eksnode "+below) {
			return "eksnode has no subcommand " + below
		}
		words = append([]string{below}, words[2:]...)
	}
	takesValue := map[string]bool{}
	for _, f := range flagLine.FindAllStringSubmatch(help, -1) {
		takesValue[f[1]] = f[2] != ""
	}
	takesArguments := regexp.MustCompile(`(?m)^  eksnode ` + regexp.QuoteMeta(words[0]) + ` \[?[A-Z]`).MatchString(help)
	rest := words[1:]
	for len(rest) > 0 {
		name, _, attached := strings.Cut(strings.TrimPrefix(rest[0], "--"), "=")
		value, known := takesValue[name]
		switch {
		case !strings.HasPrefix(rest[0], "--") && takesArguments:
			rest = rest[1:]
		case !strings.HasPrefix(rest[0], "--"):
			return "eksnode " + words[0] + " takes no argument such as " + rest[0]
		case !known:
			return "eksnode " + words[0] + " has no flag --" + name
		case value && !attached && len(rest) == 1:
			return "--" + name + " needs a value"
		case value && !attached:
			rest = rest[2:]
		default:
			rest = rest[1:]
		}
	}
	return ""
}

// packer checks that pages use only known subcommands of packer, and that a
// folder of the examples exists.
func (j judge) packer(words []string) string {
	known := []string{"init", "validate", "build"}
	if len(words) == 0 || !slices.Contains(known, words[0]) {
		return "pages use packer only with " + strings.Join(known, ", ")
	}
	if last := words[len(words)-1]; last != "." && !exists(last) {
		return last + " does not exist"
	}
	return ""
}

// goTool checks that the package in `go run` exists.
func (j judge) goTool(words []string) string {
	if len(words) < 2 || words[0] != "run" {
		return "pages use the go command only with run"
	}
	out, err := j.try("go", "list", "-find", "-f", "{{.Name}}", words[1])
	if err != nil || strings.TrimSpace(out) != "main" {
		return words[1] + " is not a program: " + out
	}
	return ""
}

// tried are the outputs of programs, by their command lines.
var tried sync.Map

// try runs a program in the repository, and returns all its output. Pages repeat commands,
// so each runs once.
func (judge) try(name string, args ...string) (string, error) {
	key := fmt.Sprintf("%q", append([]string{name}, args...))
	run, _ := tried.LoadOrStore(key, sync.OnceValues(func() (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		return string(out), err
	}))
	return run.(func() (string, error))()
}

// typed returns the commands of the pages: the lines of sh blocks, and the
// examples in the command's own help in text blocks.
func typed(t *testing.T) map[string][]string {
	found := map[string][]string{}
	for _, b := range blocks(t, "sh", "text") {
		text := strings.ReplaceAll(b.text, "\\\n", " ")
		for line := range strings.Lines(text) {
			isExample := strings.HasPrefix(line, "  eksnode ") && !strings.Contains(line, "[flags]") && !strings.Contains(line, "[command]")
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") && (b.language == "sh" || isExample) {
				found[b.page] = append(found[b.page], line)
			}
		}
	}
	return found
}

func TestCommandsInPagesAreValid(t *testing.T) {
	j := judge{t}
	commands := typed(t)
	require.NotEmpty(t, commands["README.md"])
	require.NotEmpty(t, commands["docs/reference/commands/eksnode-scrub.md"])
	for page, lines := range commands {
		for _, line := range lines {
			assert.Empty(t, j.wrong(line), "%s: %s", page, line)
		}
	}
}

// Commands in running text, such as `make test`, must have existing targets.
func TestMakeTargetsInRunningTextExist(t *testing.T) {
	j := judge{t}
	inline := regexp.MustCompile("`(make [a-zA-Z][^`]*)`")
	seen := map[string]bool{}
	for _, page := range pages(t) {
		for _, found := range inline.FindAllStringSubmatch(read(t, page), -1) {
			if !seen[found[1]] {
				seen[found[1]] = true
				assert.Empty(t, j.wrong(found[1]), "%s: %s", page, found[1])
			}
		}
	}
	require.NotEmpty(t, seen)
}

// The README promises two commands on a fresh machine, and fits on two screens.
func TestTheReadmeBeginsWithItsCommands(t *testing.T) {
	assert.Equal(t, []string{"make image", "make test"}, typed(t)["README.md"][:2])
	assert.Less(t, strings.Count(read(t, "README.md"), "\n"), 100)
}

func TestInvalidCommandsAreFound(t *testing.T) {
	j := judge{t}
	for line, want := range map[string]string{
		"curl example.com":              "no check for the program curl",
		"make no-such-target":           "make has no target no-such-target",
		"make e2e DISTROS=arch":         "the makefile has no variable DISTROS",
		"eksnode":                       "eksnode needs a subcommand",
		"eksnode polish":                "eksnode has no subcommand polish",
		"eksnode ami polish":            "eksnode has no subcommand ami polish",
		"eksnode ami retire --publish":  "eksnode ami retire has no flag --publish",
		"eksnode ami list here":         "eksnode ami list takes no argument such as here",
		"sudo eksnode scrub --no":       "eksnode scrub has no flag --no",
		"eksnode audit --root":          "--root needs a value",
		"eksnode audit here":            "eksnode audit takes no argument such as here",
		"packer fmt .":                  "pages use packer only with init, validate, build",
		"packer build examples/nowhere": "examples/nowhere does not exist",
		"go install ./plugin":           "pages use the go command only with run",
		"go run ./host":                 "./host is not a program: host\n",
	} {
		assert.Contains(t, j.wrong(line), want, line)
	}
	for _, line := range []string{"make build", "sudo eksnode audit --root /mnt --output=json", "sudo -E eksnode audit", "eksnode ami --policy", "eksnode ami diff a b --output json", "packer build examples/local", "go run ./docs/generate"} {
		assert.Empty(t, j.wrong(line), line)
	}
}

func TestMakeHelpListsEveryTarget(t *testing.T) {
	_, phony, found := strings.Cut(read(t, "GNUmakefile"), "\n.PHONY: ")
	require.True(t, found)
	phony, _, _ = strings.Cut(phony, "\n")
	assert.ElementsMatch(t, strings.Fields(phony), targets())
	// A dry run needs a rule for each, and for what each needs.
	said, err := judge{t}.try("make", append([]string{"-nB"}, targets()...)...)
	require.NoError(t, err, said)
}
