package checks

import (
	"go/ast"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newer are options that systemd 219, Amazon Linux 2's, does not have.
var newer = map[string][]string{
	"systemctl": {"--value", "--now", "--what", "--when", "--with-dependencies", "--dry-run", "--wait"},
	"udevadm":   {"--settle", "--wait-daemon", "wait", "lock", "verify"},
}

// tooNew lists the commands of a source that systemd 219 refuses.
func tooNew(s source) []string {
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		var list []ast.Expr
		switch n := n.(type) {
		case *ast.CompositeLit:
			list = n.Elts
		case *ast.CallExpr:
			list = n.Args
		}
		var words []string
		for _, e := range list {
			if lit, ok := e.(*ast.BasicLit); ok {
				if word, err := strconv.Unquote(lit.Value); err == nil {
					words = append(words, word)
				}
			}
		}
		for tool, options := range newer {
			if slices.Contains(words, tool) && slices.ContainsFunc(words, func(w string) bool { return slices.Contains(options, w) }) {
				found = append(found, s.at(n.Pos())+": "+strings.Join(words, " "))
			}
		}
		return true
	})
	return found
}

func TestCommandsWorkWithOldSystemd(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() && s.room() != "e2e" {
			assert.Empty(t, tooNew(s))
		}
	}
	made := parsed(t, "x/a.go", `package x
func f() { run(h, "systemctl", "enable", "--now", "a"); run(h, []string{"systemctl", "show", "--value"}); run("udevadm", "settle") }`)
	assert.Equal(t, []string{"x/a.go:2: systemctl enable --now a", "x/a.go:2: systemctl show --value"}, tooNew(made))
}

// systemd before 239 ignores a command without its path, with a warning.
var pathless = regexp.MustCompile(`(?m)^Exec\w+=[-@:+!]*[^-@:+!/{].*`)

func TestUnitCommandsHavePaths(t *testing.T) {
	looked := 0
	for _, name := range tracked(t) {
		if path.Ext(name) != ".service" {
			continue
		}
		looked++
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		assert.Empty(t, pathless.FindAllString(string(text), -1), name)
	}
	assert.NotZero(t, looked)
	assert.True(t, pathless.MatchString("ExecStartPre=-iptables -w"))
	assert.False(t, pathless.MatchString("ExecStart={command} init\nExecStartPre=-/sbin/iptables -w"))
}

var shebang = regexp.MustCompile(`^#!.*\b(sh|bash|dash)\b`)

// isScript reports whether a tracked file is a shell script.
func isScript(name, text string) bool {
	return slices.Contains([]string{".sh", ".bash"}, path.Ext(name)) || shebang.MatchString(text)
}

func TestShellScriptsPassShellcheck(t *testing.T) {
	for _, name := range tracked(t) {
		if strings.Contains(name, "/testdata/") || !isScript(name, read(t, name)) {
			continue
		}
		assert.Empty(t, shellcheck(t, filepath.Join(root, name)), name)
	}
}

// shellcheck returns the output of shellcheck(1) for a script.
func shellcheck(t *testing.T, name string) string {
	t.Helper()
	program, err := exec.LookPath("shellcheck")
	require.NoError(t, err, "install shellcheck: apt-get install shellcheck")
	out, err := exec.CommandContext(t.Context(), program, name).CombinedOutput()
	if err == nil {
		return ""
	}
	return string(out)
}

func TestShellScriptProblemsAreFound(t *testing.T) {
	const text = "#!/usr/bin/env bash\nrm -rf $1/*\n"
	assert.True(t, isScript("tool", text))
	assert.True(t, isScript("a.sh", ""))
	assert.False(t, isScript("a.go", "package a\n"))
	name := filepath.Join(t.TempDir(), "tool")
	write(t, name, text)
	assert.Contains(t, shellcheck(t, name), "SC2086")
}
