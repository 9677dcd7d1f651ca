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

func parse(t *testing.T) Command {
	t.Helper()
	text, err := os.ReadFile(commandFile)
	require.NoError(t, err)
	c, err := ParseCommand(text)
	require.NoError(t, err)
	require.Len(t, c.Steps, 1)
	return c
}

// sent are values as somebody sends them.
func sent() map[string]string {
	return map[string]string{
		"Release": "https://example.com/v0.1.0", "Version": "0.1.0",
		"ChecksumAMD64": strings.Repeat("a", 64), "ChecksumARM64": strings.Repeat("b", 64),
	}
}

func TestTheDocumentIsWhatSystemsManagerTakes(t *testing.T) {
	c := parse(t)
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

// What is sent becomes a part of a script that root runs.
func TestValuesCannotBecomeCommands(t *testing.T) {
	c := parse(t)
	for name := range c.Parameters {
		for _, value := range []string{"'; reboot; '", "$(reboot)", "a\nreboot", "`reboot`", "a b", ""} {
			values := sent()
			values[name] = value
			_, err := c.Script(0, values)
			assert.ErrorContains(t, err, "is not allowed", "%s: %s", name, value)
		}
	}
}

func TestAWrongDocumentIsRefused(t *testing.T) {
	text, err := os.ReadFile(commandFile)
	require.NoError(t, err)
	for old, c := range map[string][2]string{
		`schemaVersion: "2.2"`:     {`schemaVersion: "1.2"`, `schemaVersion: it is "1.2", and not 2.2`},
		"mainSteps:":               {"steps:", "field steps not found"},
		"aws:runShellScript":       {"aws:runPowerShellScript", `nothing runs the action "aws:runPowerShellScript" here`},
		"name: audit":              {"name: a", `the step's name "a" is not`},
		"runCommand:":              {"runCommands:", "field runCommands not found"},
		"platformType, Linux":      {"platform, Linux", "the precondition never holds"},
		"type: String":             {"type: StringList", `nothing reads the type "StringList" here`},
		"default: text":            {"default: xml", `its default "xml" is not allowed`},
		"    allowedPattern: ^/[A": {"    displayType: ^/[A", "field displayType not found"},
	} {
		require.Contains(t, string(text), old)
		_, err := ParseCommand([]byte(strings.Replace(string(text), old, c[0], 1)))
		assert.ErrorContains(t, err, c[1], old)
	}
	c := parse(t)
	_, err = c.Script(0, map[string]string{"Cluster": "x"})
	require.ErrorContains(t, err, "there is no parameter Cluster")
	require.ErrorContains(t, err, "the parameter Release has no value")
}
