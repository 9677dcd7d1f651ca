package engines

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
)

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
		text := lab.Content(t, file)
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
