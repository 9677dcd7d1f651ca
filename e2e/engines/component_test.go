package engines

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const componentFile = "../../examples/image-builder/component.yaml"

// recipe returns values as a recipe sets them.
func recipe() map[string]string {
	return map[string]string{"Archive": "https://example.com/a.tar.gz", "Checksum": strings.Repeat("a", 64), "KubernetesVersion": "1.36.3"}
}

func TestImageBuilderComponentIsValid(t *testing.T) {
	text, err := os.ReadFile(componentFile)
	require.NoError(t, err)
	c, err := ParseComponent(text, recipe())
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
	text, err := os.ReadFile("../../examples/image-builder/pipeline.yaml")
	require.NoError(t, err)
	var stack struct {
		Parameters map[string]any `yaml:"Parameters"`
		Resources  map[string]struct {
			Type       string    `yaml:"Type"`
			Properties yaml.Node `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	require.NoError(t, yaml.Unmarshal(text, &stack))
	known := map[string]bool{}
	for name := range stack.Parameters {
		known[name] = true
	}
	for name, r := range stack.Resources {
		known[name] = true
		assert.Regexp(t, `^AWS::(IAM|ImageBuilder)::`, r.Type)
	}
	for _, found := range regexp.MustCompile(`!Ref (\S+?)[\],}]*\s|\$\{([^}]+)\}`).FindAllStringSubmatch(string(text), -1) {
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
