package checks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// greeting is an option that a contributor might add.
const greeting = "\t// Text that greets people who log in, such as `hello`. It goes without\n\t// `sysctls`.\n" +
	"\tGreetingText string `json:\"greeting_text,omitempty\" mapstructure:\"greeting_text\"`\n"

// greeted tests the option in the plugin: a set value reaches the machine, and
// an unknown value is left out.
const greeted = `package eksnode

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGreeting(t *testing.T) {
	var p Provisioner
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "greeting_text": "hello"}))
	spec, err := p.config.sent()
	require.NoError(t, err)
	require.Equal(t, "hello", spec.GreetingText)
	require.NoError(t, p.Prepare(fields{"kubernetes_version": "1.34.4", "greeting_text": "<unknown>"}))
	require.Empty(t, p.config.known().GreetingText)
	require.Contains(t, p.ConfigSpec(), "greeting_text")
}
`

// A contributor adds an option as one field of the spec: the HCL option, the
// flag with its help, and the row in the pages are generated.
func TestNewOptionNeedsOnlyItsField(t *testing.T) {
	repository := copied(t)
	git := func(args ...string) string { return in(t, repository, "git", args...) }
	git("init", "--quiet")
	git("add", "--all")

	spec := filepath.Join(repository, "provisioner/spec.go")
	text, err := os.ReadFile(spec)
	require.NoError(t, err)
	before, after, found := strings.Cut(string(text), "\t// Prepare the node for Elastic Fabric Adapter.")
	require.True(t, found)
	write(t, spec, before+greeting+"\t// Prepare the node for Elastic Fabric Adapter."+after)
	in(t, repository, "go", "run", "./docs/generate")
	assert.Equal(t, []string{
		".web-docs/components/provisioner/eksnode/README.md", "cmd/eksnode/optionhelp.go", "docs/reference/commands/eksnode-provision.md",
		"docs/reference/components/provisioner-eksnode.md", "provisioner/spec.go",
	}, strings.Fields(git("diff", "--name-only")), "the spec, and the files generated from it")

	help := in(t, repository, "go", "run", "./cmd/eksnode", "provision", "--help")
	assert.Regexp(t, `--greeting-text string +text that greets people who log in, such as hello\n`, help)
	page, err := os.ReadFile(filepath.Join(repository, "docs/reference/components/provisioner-eksnode.md"))
	require.NoError(t, err)
	assert.Contains(t, string(page), "- `greeting_text` (string) - Text that greets people who log in, such as `hello`. It goes without `sysctls`.\n")
	write(t, filepath.Join(repository, "plugin/eksnode/greeting_test.go"), greeted)
	in(t, repository, "go", "test", "./plugin/eksnode", "-run", "TestGreeting")
}
