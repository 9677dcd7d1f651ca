//go:build e2e

package checks

import (
	_ "embed"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// shown is a file that the guide shows in full.
var shown = regexp.MustCompile("(?ms)^`([^`\n]+)`:\n\n```text\n(.*?)^```$")

// In a copy of the repository, the test follows docs/porting.md literally, and adds an
// option. Both at once are compiled once.
func TestADistributionAndAnOptionAreAddedAtOnePlace(t *testing.T) {
	repository := copied(t)
	git := func(args ...string) string { return testkit.In(t, repository, "git", args...) }
	git("init", "--quiet")
	git("add", "--all")
	addDistribution(t, repository)
	addOption(t, repository)
	testkit.In(t, repository, "make", "generate")

	names := func(list string) []string { return strings.Fields(list) }
	assert.ElementsMatch(t, []string{
		"distros/examplelinux.go", "distros/testdata/examplelinux.os-release",
		"provisioner/testdata/examplelinux.golden", "plugin/eksnode/greeting_test.go",
	}, names(git("ls-files", "--others", "--exclude-standard")), "two files and a test are written, and one is made")
	assert.ElementsMatch(t, []string{
		"internal/version/lifecycle/versions.txt", "distros/table.go", "docs/reference/distributions.md",
		"docs/reference/rules.md", "provisioner/spec.go", ".web-docs/components/provisioner/eksnode/README.md",
		"cmd/eksnode/optionhelp.txt", "docs/reference/commands/eksnode-build.md",
		"docs/reference/commands/eksnode-provision.md", "docs/reference/components/provisioner-eksnode.md",
	}, names(git("diff", "--name-only")), "beside the table, the list and the spec, what changes is generated")
	hasOption(t, repository)
	page := testkit.Content(t, filepath.Join(repository, "docs/reference/distributions.md"))
	assert.Contains(t, page,
		"| [Example Linux](#examplelinux) | 7 | 7: 2030-05-31 | dnf | package, 2.1 | plan tested, not run |\n")

	// The part of `make test` about distributions. This test would call itself
	// forever, and the other tests need no second run.
	git("add", "--all")
	testkit.In(t, repository, "go", "test", "./distros", "-run", "Distro|Release|IDs|Version|Empty|Refus|BaseImage")
	testkit.In(t, repository, "go", "test", "./provisioner", "-run", "Golden|System|EveryDistro|EveryNetwork")
	testkit.In(t, repository, "go", "test", "./internal/checks", "-run",
		"TestOnlyPackageDistrosNamesDistributions|TestLinksHaveTargets")
	assert.Empty(t, testkit.In(t, repository, "gofmt", "-l", "distros"))
}

// addDistribution writes what the guide shows.
func addDistribution(t *testing.T, repository string) {
	t.Helper()
	guide := read(t, "docs/porting.md")
	written := shown.FindAllStringSubmatch(guide, -1)
	require.Len(t, written, 2, "the guide shows the value and its os-release")
	for _, file := range written {
		write(t, filepath.Join(repository, file[1]), file[2])
	}
	const table = "internal/version/lifecycle/versions.txt"
	row := regexp.MustCompile("(?m)^examplelinux .*\n").FindString(guide)
	require.NotEmpty(t, row, "the guide shows the row of the table of versions")
	write(t, filepath.Join(repository, table), read(t, table)+row)
	const list, entries = "distros/table.go", "	all := []Distro{\n"
	entry := "		exampleLinux(),\n"
	require.Contains(t, guide, "\n"+entry, "the guide shows the entry of the list")
	write(t, filepath.Join(repository, list), strings.Replace(read(t, list), entries, entries+entry, 1))
	var commands []string
	for _, b := range fence.FindAllStringSubmatch(guide, -1) {
		if b[1] == "sh" {
			commands = append(commands, strings.TrimSpace(b[2]))
		}
	}
	require.Equal(t, []string{"make generate", "make test"}, commands)
}

// copied returns a copy of the repository's present files, including
// uncommitted ones.
func copied(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	files := run(t, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimSuffix(files, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		}
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o755))
		write(t, filepath.Join(to, name), string(text))
	}
	return to
}

// greeting is an option that a contributor might add.
const greeting = "\t// Text that greets people who log in, such as `hello`. It goes without\n\t// `sysctls`.\n" +
	"\tGreetingText string `json:\"greeting_text,omitempty\" mapstructure:\"greeting_text\"`\n"

// greeted tests the option in the plugin: a set value reaches the machine, and
// an unknown value is left out.
//
//go:embed testdata/greeting_test.txt
var greeted string

// addOption adds an option as a contributor does: as one field of the spec.
func addOption(t *testing.T, repository string) {
	t.Helper()
	spec := filepath.Join(repository, "provisioner/spec.go")
	before, after, found := strings.Cut(testkit.Content(t, spec), "\t// Prepare the node for Elastic Fabric Adapter.")
	require.True(t, found)
	write(t, spec, before+greeting+"\t// Prepare the node for Elastic Fabric Adapter."+after)
	write(t, filepath.Join(repository, "plugin/eksnode/greeting_test.go"), greeted)
}

// hasOption tests that the HCL option, the flag with its help, and the row in the pages
// are generated.
func hasOption(t *testing.T, repository string) {
	t.Helper()
	for name, want := range map[string]string{
		"cmd/eksnode/optionhelp.txt": "\nprovisioner greeting_text text that greets people who log in, " +
			"such as hello\n",
		"docs/reference/commands/eksnode-provision.md": "`--greeting-text string`",
		"docs/reference/components/provisioner-eksnode.md": "- `greeting_text` (string) - Text that " +
			"greets people who log in, such as `hello`. It goes without `sysctls`.\n",
	} {
		assert.Contains(t, testkit.Content(t, filepath.Join(repository, name)), want)
	}
	testkit.In(t, repository, "go", "test", "./plugin/eksnode", "-run", "TestGreeting")
}
