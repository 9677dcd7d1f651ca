package checks

import (
	_ "embed"
	"go/ast"
	"path"
	"path/filepath"
	"slices"
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
		".web-docs/components/provisioner/eksnode/README.md", "cmd/eksnode/optionhelp.go", "docs/reference/commands/eksnode-build.md", "docs/reference/commands/eksnode-provision.md",
		"docs/reference/components/provisioner-eksnode.md", "provisioner/spec.go",
	}, strings.Fields(git("diff", "--name-only")), "the spec, and the files generated from it")

	help := testkit.In(t, repository, "go", "run", "./cmd/eksnode", "provision", "--help")
	assert.Regexp(t, `--greeting-text string +text that greets people who log in, such as hello\n`, help)
	page := testkit.Content(t, filepath.Join(repository, "docs/reference/components/provisioner-eksnode.md"))
	assert.Contains(t, page, "- `greeting_text` (string) - Text that greets people who log in, such as `hello`. It goes without `sysctls`.\n")
	write(t, filepath.Join(repository, "plugin/eksnode/greeting_test.go"), greeted)
	testkit.In(t, repository, "go", "test", "./plugin/eksnode", "-run", "TestGreeting")
}

// A rule's row and its function are in one file. A function for rows of several
// files is in a file of its own.
func TestRulesAndFunctionsShareAFile(t *testing.T) {
	var files []source
	for _, s := range sources(t) {
		if path.Dir(s.name) == "scrub/rules" && !s.isTest() {
			files = append(files, s)
		}
	}
	require.NotEmpty(t, files)
	assert.Empty(t, apart(files))
}

func TestRulesApartFromFunctionsAreFound(t *testing.T) {
	row := "package rules\n\nvar rows = []Rule{{ID: \"a\", Look: find}, {ID: \"b\", Applies: both(1)}, {ID: \"c\", Look: search}}\n\nfunc search() {}\n"
	assert.Equal(t, []string{"a.go: find is in b.go"}, apart([]source{
		parsed(t, "a.go", row), parsed(t, "b.go", "package rules\n\nfunc find() {}\n\nfunc both(int) {}\n"),
		parsed(t, "c.go", "package rules\n\nvar rule = Rule{Look: both(2)}\n"),
	}))
}

// apart lists the functions of rules that are in another file than the row.
func apart(files []source) []string {
	declared, used := map[string]string{}, map[string][]string{}
	for _, s := range files {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				declared[f.Name.Name] = s.name
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			field, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, ok := field.Key.(*ast.Ident)
			if !ok || !slices.Contains([]string{"Applies", "Look"}, key.Name) {
				return true
			}
			value := field.Value
			if call, ok := value.(*ast.CallExpr); ok {
				value = call.Fun
			}
			if f, ok := value.(*ast.Ident); ok && !slices.Contains(used[f.Name], s.name) {
				used[f.Name] = append(used[f.Name], s.name)
			}
			return true
		})
	}
	var found []string
	for name, in := range used {
		if at, own := declared[name]; own && len(in) == 1 && at != in[0] {
			found = append(found, in[0]+": "+name+" is in "+at)
		}
	}
	slices.Sort(found)
	return found
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
