package engines

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const commandFile = "../../examples/ssm/audit.yaml"

func parseCommand(t *testing.T) Command {
	t.Helper()
	text, err := os.ReadFile(commandFile)
	require.NoError(t, err)
	c, err := ParseCommand(text)
	require.NoError(t, err)
	require.Len(t, c.Steps, 1)
	return c
}

// sent are parameter values of a sender.
func sent() map[string]string {
	return map[string]string{
		"Release": "https://example.com/v0.1.0", "Version": "0.1.0",
		"ChecksumAMD64": strings.Repeat("a", 64), "ChecksumARM64": strings.Repeat("b", 64),
	}
}

func TestRunCommandDocumentIsValid(t *testing.T) {
	c := parseCommand(t)
	script, err := c.Script(0, sent())
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "script.sh")
	require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
	out, err := exec.CommandContext(t.Context(), "shellcheck", "--shell", "sh", "--exclude", "SC2050,SC2194", file).CombinedOutput()
	assert.NoError(t, err, string(out))
	for name, p := range c.Parameters {
		if p.Default == nil {
			assert.Contains(t, sent(), name)
		}
		assert.NotEmpty(t, p.Description, name)
	}
}

// Parameter values become part of a script that root runs.
func TestRunCommandParametersCannotInjectShell(t *testing.T) {
	c := parseCommand(t)
	for name := range c.Parameters {
		for _, value := range []string{"'; reboot; '", "$(reboot)", "a\nreboot", "`reboot`", "a b", ""} {
			values := sent()
			values[name] = value
			_, err := c.Script(0, values)
			assert.ErrorContains(t, err, "is not allowed", "%s: %s", name, value)
		}
	}
}
