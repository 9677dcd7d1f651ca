package checks

import (
	_ "embed"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// greeting is an option that a contributor might add.
const greeting = "\t// Text that greets people who log in, such as `hello`. It goes without\n\t// `sysctls`.\n" +
	"\tGreetingText string `json:\"greeting_text,omitempty\" mapstructure:\"greeting_text\"`\n"

// greeted tests the option in the plugin: a set value reaches the machine, and
// an unknown value is left out.
//
//go:embed testdata/greeting_test.txt
var greeted string

// A contributor adds an option as one field of the spec: the HCL option, the
// flag with its help, and the row in the pages are generated.
func TestNewOptionNeedsOnlyItsField(t *testing.T) {
	repository := copied(t)
	git := func(args ...string) string { return testkit.In(t, repository, "git", args...) }
	git("init", "--quiet")
	git("add", "--all")

	spec := filepath.Join(repository, "provisioner/spec.go")
	text := testkit.Content(t, spec)
	before, after, found := strings.Cut(text, "\t// Prepare the node for Elastic Fabric Adapter.")
	require.True(t, found)
	write(t, spec, before+greeting+"\t// Prepare the node for Elastic Fabric Adapter."+after)
	testkit.In(t, repository, "go", "run", "./docs/generate")
	assert.Equal(t, []string{
		".web-docs/components/provisioner/eksnode/README.md", "cmd/eksnode/optionhelp.txt", "docs/reference/commands/eksnode-build.md", "docs/reference/commands/eksnode-provision.md",
		"docs/reference/components/provisioner-eksnode.md", "provisioner/spec.go",
	}, strings.Fields(git("diff", "--name-only")), "the spec, and the files generated from it")

	help := testkit.In(t, repository, "go", "run", "./cmd/eksnode", "provision", "--help")
	assert.Regexp(t, `--greeting-text string +text that greets people who log in, such as hello\n`, help)
	page := testkit.Content(t, filepath.Join(repository, "docs/reference/components/provisioner-eksnode.md"))
	assert.Contains(t, page, "- `greeting_text` (string) - Text that greets people who log in, such as `hello`. It goes without `sysctls`.\n")
	write(t, filepath.Join(repository, "plugin/eksnode/greeting_test.go"), greeted)
	testkit.In(t, repository, "go", "test", "./plugin/eksnode", "-run", "TestGreeting")
}

// The agent is built with the tag agent. It contains the AWS clients of the
// services that a node calls, and the SDK's own clients for credentials. Every
// other client would make it larger.
func TestAgentLacksWorkstationClients(t *testing.T) {
	const service = "github.com/aws/aws-sdk-go-v2/service/"
	var services []string
	for _, d := range strings.Fields(run(t, "go", "list", "-deps", "-tags", "agent", "./cmd/eksnode")) {
		if name, ok := strings.CutPrefix(d, service); ok && !strings.Contains(name, "/") {
			services = append(services, name)
		}
		assert.NotEqual(t, module+"/internal/preflight", d)
		assert.NotEqual(t, module+"/internal/awsapi", d)
		assert.NotEqual(t, module+"/internal/ami/attest", d)
		assert.False(t, strings.HasPrefix(d, "github.com/spdx/"), d)
		assert.False(t, strings.HasPrefix(d, "github.com/hashicorp/hcl/"), d)
	}
	assert.ElementsMatch(t, []string{"ec2", "eks", "sts", "signin", "sso", "ssooidc"}, services)
	assert.Contains(t, strings.Fields(run(t, "go", "list", "-deps", "./cmd/eksnode")), module+"/internal/preflight", "the workstation's program must contain the client")
}
