//go:build linux

package aws

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

var update = flag.Bool("update", false, "write README.md")

const head = `# What plays AWS

<!-- go test ./e2e/aws -run TestReadme -update: made of calls.yaml, rules.yaml and ebsdirect/rules.yaml -->

A World is an account of AWS on loopback, for the real SDK, the real AWS CLI and the real Packer. It is a proxy in front
of [moto](https://docs.getmoto.org). A call, a parameter or a filter outside these tables fails the test.

- Faults, late answers and lost answers: behaviour.go. Every run that a fault can end: enumerate.go.
- Accounts without moto, for thousands of short runs: light.go. IAM policies: simulate.go.
- Protocols: endpoint. Commands of the AWS CLI: cli. Blocks of snapshots: ebsdirect. Metadata: imdstest.

## Calls of ours

`

const tail = `
## Rules

What AWS refuses for a parameter is in [rules.yaml](rules.yaml) and [ebsdirect/rules.yaml](ebsdirect/rules.yaml): each
row has its source, and samples that a test sends. What needs the account is in the code of the call.
`

// The tables have every call of ours once, and README.md is made of the tables.
func TestReadme(t *testing.T) {
	w := Light(t, t.TempDir())
	actions := w.own()
	maps.Copy(actions, w.setup())
	var named []string
	text := head
	for _, name := range slices.Sorted(maps.Keys(calls())) {
		for _, row := range calls()[name].Ours {
			text += wrapped("- " + name + ": " + row.Calls + ", because " + row.Why)
			for call := range strings.FieldsSeq(row.Calls) {
				named = append(named, name+":"+call)
			}
		}
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(actions)), named, "calls.yaml")
	text += "\n## Calls of moto\n\n"
	line := "[calls.yaml](calls.yaml) lists the calls that moto carries out, with the parameters that it uses. " +
		"Their numbers:"
	for _, name := range slices.Sorted(maps.Keys(calls())) {
		line += fmt.Sprintf(" %s %d,", name, len(calls()[name].Moto))
	}
	text += strings.ReplaceAll(wrapped(strings.TrimSuffix(line, ",")+"."), "\n  ", "\n")
	text += tail
	if *update {
		require.NoError(t, os.WriteFile("README.md", []byte(text), 0o644))
	}
	assert.Equal(t, text, testkit.Content(t, "README.md"), "run go test ./e2e/aws -run TestReadme -update")
	assert.LessOrEqual(t, strings.Count(text, "\n"), 60)
}

// wrapped is a list item in lines of up to 118 columns.
func wrapped(item string) string {
	var out strings.Builder
	length := 0
	for word := range strings.FieldsSeq(item) {
		switch length += 1 + len(word); {
		case out.Len() == 0:
		case length > 118:
			out.WriteString("\n  ")
			length = 2 + len(word)
		default:
			out.WriteString(" ")
		}
		out.WriteString(word)
	}
	return out.String() + "\n"
}
