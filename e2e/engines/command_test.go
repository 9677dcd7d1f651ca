package engines

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

const commandFile = "../../examples/ssm/audit.yaml"

func parseCommand(t *testing.T) Command {
	t.Helper()
	text := testkit.Content(t, commandFile)
	c, err := ParseCommand([]byte(text))
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

// Each case is an example with one change that the engine would refuse.
func TestInvalidDocumentsAreRefused(t *testing.T) {
	parse := map[string]func(text string) error{
		componentFile: func(text string) error { _, err := ParseComponent([]byte(text), recipe()); return err },
		commandFile:   func(text string) error { _, err := ParseCommand([]byte(text)); return err },
	}
	for file, changes := range map[string][][2]string{
		componentFile: {
			{"schemaVersion: 1.0", "schemaVersion: 1.2"}, {"phases:", "phase:"}, {"- name: validate", "- name: build"}, {"- name: Scrub", "- name: Provision"},
			{"action: DeleteFolder", "action: RemoveFolder"}, {"timeoutSeconds: 3600", "timeoutSeconds: 0"}, {"maxAttempts: 3", "maxAttempts: 0"},
			{"timeoutSeconds: 1800", "onFailure: Stop"}, {"algorithm: SHA256", "algorithms: SHA256"}, {"commands:", "command:"},
			{"'{{ Needed }}'", "'{{ Need }}'"}, {"- Archive:", "- Ar:"}, {"- Archive:", "- Cluster:"}, {"      type: string", "      type: number"}, {"      default: --source", "      defaults: --source"},
		},
		commandFile: {
			{`schemaVersion: "2.2"`, `schemaVersion: "1.2"`}, {"mainSteps:", "steps:"}, {"aws:runShellScript", "aws:runPowerShellScript"}, {"name: audit", "name: a"},
			{"runCommand:", "runCommands:"}, {"platformType, Linux", "platform, Linux"}, {"type: String", "type: StringList"}, {"default: text", "default: xml"},
			{"    allowedPattern: ^/[A", "    displayType: ^/[A"},
		},
	} {
		text := testkit.Content(t, file)
		require.NoError(t, parse[file](text))
		for _, change := range changes {
			require.Contains(t, text, change[0])
			assert.Error(t, parse[file](strings.Replace(text, change[0], change[1], 1)), change[1])
		}
	}
	_, err := parseCommand(t).Script(0, map[string]string{"Cluster": "x"})
	require.ErrorContains(t, err, "the document has no parameter Cluster")
	require.ErrorContains(t, err, "the parameter Release has no value")
}

const componentFile = "../../examples/image-builder/component.yaml"

// recipe returns values as a recipe sets them.
func recipe() map[string]string {
	return map[string]string{"Archive": "https://example.com/a.tar.gz", "Checksum": strings.Repeat("a", 64), "KubernetesVersion": "1.36.3"}
}

func TestImageBuilderComponentIsValid(t *testing.T) {
	text := testkit.Content(t, componentFile)
	c, err := ParseComponent([]byte(text), recipe())
	require.NoError(t, err)
	var names []string
	for _, p := range c.Phases {
		names = append(names, p.Name)
		for _, s := range p.Steps {
			names = append(names, p.Name+"."+s.Name)
			for _, d := range s.Download {
				assert.Equal(t, "SHA256", d.Algorithm, "Image Builder ignores a checksum without its algorithm")
				assert.Equal(t, recipe()["Checksum"], d.Checksum)
			}
			if s.Action == "ExecuteBash" {
				require.Len(t, s.Bash.Commands, 1)
				assert.True(t, strings.HasPrefix(s.Bash.Commands[0], "set -euo pipefail\n"), "the script would continue after a failed command")
			}
		}
	}
	assert.Equal(t, []string{
		"build", "build.Download", "build.Provision", "build.Scrub", "validate", "validate.Audit", "validate.Remove",
		"test", "test.Download", "test.Node", "test.Remove",
	}, names)
	assert.LessOrEqual(t, len(text), 16000, "the size limit of CreateComponent")
}

// The stack sets the component's parameters, and refers only to what it
// defines.
func TestPipelineStackMatchesComponent(t *testing.T) {
	text := testkit.Content(t, "../../examples/image-builder/pipeline.yaml")
	var stack struct {
		Parameters map[string]any `yaml:"Parameters"`
		Resources  map[string]struct {
			Type       string    `yaml:"Type"`
			Properties yaml.Node `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &stack))
	known := map[string]bool{}
	for name := range stack.Parameters {
		known[name] = true
	}
	for name, r := range stack.Resources {
		known[name] = true
		assert.Regexp(t, `^AWS::(IAM|ImageBuilder)::`, r.Type)
	}
	for _, found := range regexp.MustCompile(`!Ref (\S+?)[\],}]*\s|\$\{([^}]+)\}`).FindAllStringSubmatch(text, -1) {
		name := found[1] + found[2]
		assert.True(t, known[name] || strings.HasPrefix(name, "AWS::"), "the stack defines no %s", name)
	}
	var used struct {
		Components []struct {
			Parameters []struct {
				Name string `yaml:"Name"`
			} `yaml:"Parameters"`
		} `yaml:"Components"`
	}
	properties := stack.Resources["Recipe"].Properties
	require.NoError(t, properties.Decode(&used))
	require.Len(t, used.Components, 1)
	var names []string
	for _, p := range used.Components[0].Parameters {
		names = append(names, p.Name)
		assert.Contains(t, stack.Parameters, p.Name)
	}
	var want []string
	for name := range recipe() {
		want = append(want, name)
	}
	assert.ElementsMatch(t, want, names)
}
