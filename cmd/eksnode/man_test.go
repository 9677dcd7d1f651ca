//go:build linux && !agent

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

func writeMan(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "man1")
	assert.Empty(t, succeeds(t, "man", folder))
	return folder
}

// Every command in the help has a man page, and man prints no warnings.
func TestEveryCommandHasAManPage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225599") // 2025-12-31, one second before 2026
	t.Setenv("TZ", "Asia/Tokyo")
	folder := writeMan(t)
	again := writeMan(t)
	pages := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		page := testkit.Content(t, filepath.Join(folder, name))
		pages++
		assert.Equal(t, page, testkit.Content(t, filepath.Join(again, name)), name)
		assert.Contains(t, page, `"1" "Dec 2025" "eksnode `, name)
		assert.Contains(t, page, c.Short, name)
		assert.NotContains(t, page, "Auto generated", name)
		said, err := exec.CommandContext(t.Context(), "sh", "-c", `LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$0" 2>&1 > /dev/null`, filepath.Join(folder, name)).Output()
		require.NoError(t, err, name)
		assert.Empty(t, string(said), name)
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" {
				walk(sub)
			}
		}
	}
	walk(root())
	assert.Len(t, testkit.Names(t, folder), pages)

	text, err := exec.CommandContext(t.Context(), "man", "-l", filepath.Join(folder, "eksnode-userdata.1")).Output()
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^ +bottlerocket  Bottlerocket's settings in TOML$`, string(text), "a list must keep its lines")
	assert.NotContains(t, string(text), "eksnode-userdata-help")
}

// The agent is sent to every builder machine, so it does not link cobra's package
// doc and its imports.
func TestTheAgentHasNoManPages(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "agent", ".")
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "github.com/spf13/cobra\n")
	assert.NotContains(t, string(out), "github.com/spf13/cobra/doc")
	assert.NotContains(t, string(out), "md2man")
}

// completed returns the completions of a command line: the values, and cobra's
// directive with its colon.
func completed(t *testing.T, args ...string) (values []string, directive string) {
	t.Helper()
	out := succeeds(t, append([]string{"__completeNoDesc"}, args...)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := len(lines) - 1
	return lines[:last], lines[last]
}

// The directives of cobra.
const (
	anyFile     = ":0"
	noFiles     = ":4"
	noFilesOpen = ":6" // no space follows
	fileEnding  = ":8"
	onlyFolders = ":16"
)

// A flag whose help begins with a file or a folder completes one. Any file is for few.
func TestFlagsCompleteFiles(t *testing.T) {
	path := regexp.MustCompile(`^(YAML |or |JSON |cache |lock )*` +
		`(file (with|for|from|that)|folder|disk image to|image root|OCI archives)\b`)
	found := 0
	everyFlag(t, func(command string, c *cobra.Command, f *pflag.Flag) {
		name := command + " --" + f.Name
		assert.NotEmpty(t, f.Usage, name)
		if c.DisableFlagParsing {
			return // the command completes its flags as arguments
		}
		values, directive := completed(t, append(strings.Fields(command)[1:], "--"+f.Name+"=")...)
		switch directive {
		case anyFile:
			assert.Contains(t, []string{"config-cache", "config-output", "node-command"}, f.Name, name)
		case fileEnding:
			assert.NotEmpty(t, values, name)
		case noFiles, noFilesOpen:
			assert.NotRegexp(t, path, f.Usage, name)
			return
		}
		found++
	})
	assert.Greater(t, found, 50)
	commands := map[string]bool{}
	everyFlag(t, func(path string, _ *cobra.Command, f *pflag.Flag) {
		commands["--"+f.Name], commands[strings.TrimPrefix(path, "eksnode ")+" --"+f.Name], commands[strings.TrimPrefix(path, "eksnode ")] = true, true, true
	})
	commands["bootstrap.sh"] = true
	for key := range declaredValues() {
		assert.True(t, commands[key], "%s: there is no such flag or command", key)
	}
	for key := range workstationValues() {
		assert.True(t, commands[key], "%s: there is no such flag or command", key)
	}
}

// The cases are in testdata/completions.cases.
func TestCompletedValues(t *testing.T) {
	folder := t.TempDir()
	hosttest.Lay(t, folder, map[string]string{
		"ca.pem": "", "a.tar": "", "b.tar": "", "b.txt": "", ".hidden.pem": "", "cas/x.pem": "",
		"rules.yaml": "rules:\n  - id: agent-state\n    phase: state\n    action: remove\n    paths: [/var/lib/agent/id]\n" +
			"    why: two nodes must not share the id\n",
	})
	lists := map[string][]string{"folder": {folder}, "distros": distros.IDs()}
	for _, f := range userdata.Families() {
		lists["families"] = append(lists["families"], f.ID)
		if !f.Carries {
			lists["carried"] = append(lists["carried"], f.ID)
		}
	}
	for _, m := range clustersetup.Table() {
		lists["manifests"] = append(lists["manifests"], m.ID)
	}
	text := os.Expand(testkit.Content(t, "testdata/completions.cases"), func(name string) string {
		return strings.Join(lists[name], " ")
	})
	for one := range strings.Lines(text) {
		line, want, isCase := strings.Cut(one, "|")
		if !isCase {
			continue // a comment
		}
		values, directive := completed(t, strings.Split(line, " ")...)
		assert.ElementsMatch(t, strings.Fields(want), append(values, directive), line)
	}
}

// bash with Debian's bash-completion completes rules and flags.
func TestBashCompletesRulesAndFlags(t *testing.T) {
	const functions = "/usr/share/bash-completion/bash_completion"
	require.FileExists(t, functions, "install the package bash-completion")
	for line, want := range map[string]string{
		"eksnode scrub --rules kubelet-p":                    "kubelet-pki\nkubelet-pods\nkubelet-port\n",
		"eksnode scrub --rules=kubelet-p":                    "kubelet-pki\nkubelet-pods\nkubelet-port\n",
		"eksnode scrub --rules kubelet-pki,kubelet-p":        "kubelet-pki,kubelet-pods\nkubelet-pki,kubelet-port\n",
		"eksnode scrub --audit w":                            "warn\n",
		"eksnode provision --versions kubel":                 "kubelet=\n",
		"eksnode compl":                                      "completion\n",
		"eksnode scrub ":                                     "",
		"eksnode scrub --rules-file testdata/":               "",
		"eksnode scrub --root test":                          "testdata\n",
		"eksnode audit --rules-file testdata/absent --rules": "--rules\n",
	} {
		const script = `source ` + functions + `
source <(eksnode completion bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
read -ra COMP_WORDS <<< "$1"
[[ $1 != *" " ]] || COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
__start_eksnode
for reply in "${COMPREPLY[@]}"; do echo "${reply%% *}"; done`
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script, "bash", line)
		cmd.Env = append(os.Environ(), "PATH="+commandFolder(t)+":"+os.Getenv("PATH"))
		out, err := cmd.Output() // compopt warns on stderr, because readline does not run
		require.NoError(t, err, line)
		assert.Equal(t, want, string(out), line)
	}
}

// commandFolder returns a folder with the test binary as eksnode. TestMain makes
// the test binary behave as eksnode.
func commandFolder(t *testing.T) string {
	t.Helper()
	for folder := range strings.SplitSeq(os.Getenv("PATH"), ":") {
		if _, err := os.Stat(filepath.Join(folder, "eksnode")); err == nil && strings.Contains(folder, "testscript") {
			return folder
		}
	}
	folder := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(folder, "eksnode")))
	return folder
}

// Each shell accepts its script without syntax errors.
func TestCompletionScriptsAreWellFormed(t *testing.T) {
	for _, shell := range shells() {
		var out, errOut bytes.Buffer
		require.Zero(t, run(t.Context(), []string{"completion", shell}, nil, &out, &errOut), errOut.String())
		assert.Contains(t, out.String(), "eksnode", shell)
		if shell == "powershell" { // Debian has no PowerShell
			continue
		}
		name := filepath.Join(t.TempDir(), "script")
		require.NoError(t, os.WriteFile(name, out.Bytes(), 0o644))
		said, err := exec.CommandContext(t.Context(), shell, "-n", name).CombinedOutput()
		assert.NoError(t, err, "%s: %s", shell, said)
	}
}

// The region of the environment is checked as that of the flag.
func TestAMalformedRegionIsRefusedBeforeAnyCall(t *testing.T) {
	calls := unreachableAWS(t)
	t.Setenv("AWS_REGION", "eu_west_1")
	_, _, errOut := command(t, "", "ami", "list")
	assert.Equal(t, "eksnode: --region: \"eu_west_1\" is not a region such as eu-west-1\n", errOut)
	assert.Zero(t, calls.Load())
}
