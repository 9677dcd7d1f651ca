package checks

import (
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
