package checks

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

var (
	section  = regexp.MustCompile(`(?m)^## (.*)$`)
	released = regexp.MustCompile(`^\[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$`)
	entry    = regexp.MustCompile(`(?m)^- .*$`)
	kind     = regexp.MustCompile(`(?m)^### (.*)$`)
)

// Pages say by the changelog whether there is a release that packer init can download. So
// a release's tag needs its section. Where git has no tags, nothing can be compared.
func TestTagsHaveSections(t *testing.T) {
	text := read(t, "CHANGELOG.md")
	for tag := range strings.FieldsSeq(run(t, "git", "tag", "--list", "v[0-9]*")) {
		assert.Contains(t, text, "\n## ["+strings.TrimPrefix(tag, "v")+"] - ", "CHANGELOG.md has no section for the tag %s", tag)
	}
}

// Every page on which packer init runs also says how to install the plugin before the
// first release. docs/generate writes that text.
func TestPagesWithPackerInitSayHowToInstallThePlugin(t *testing.T) {
	count := 0
	for page, lines := range typed(t) {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "packer init") }) {
			continue
		}
		count++
		text := read(t, page)
		if strings.HasPrefix(page, "docs/reference/") || strings.HasPrefix(page, ".web-docs/") { // generated as a whole
			assert.Contains(t, text, "make install", page)
			continue
		}
		assert.Contains(t, text, "<!-- install -->\n", page)
	}
	assert.NotZero(t, count)
	assert.Contains(t, read(t, "README.md")[:300], "<!-- install -->\n", "the first words say whether there is a release")
}

func TestChangelogFormat(t *testing.T) {
	text := read(t, "CHANGELOG.md")
	sections := section.FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, sections)
	for i, s := range sections {
		if i == 0 && s[1] == "[Unreleased]" {
			continue
		}
		assert.Regexp(t, released, s[1])
	}
	for _, k := range kind.FindAllStringSubmatch(text, -1) {
		assert.Contains(t, []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}, k[1])
	}
	for _, entry := range entry.FindAllString(text, -1) {
		assert.LessOrEqual(t, len(entry), 122, "an entry is one short line: %s", entry)
	}
	// Between releases the sources have the next version, without a section.
	if version.VersionPrerelease == "" {
		assert.Contains(t, text, "\n## ["+version.Version+"] - ")
	}
}

// A release needs a tag whose version is in the sources and in the changelog.
// The version's section of the changelog becomes the release notes.
func TestReleaseNotes(t *testing.T) {
	changelog := testkit.Content(t, "testdata/changelog.md.txt")
	script, err := filepath.Abs(filepath.Join(root, ".ci/release-notes"))
	require.NoError(t, err)
	missing := func(tag, version string) string {
		return "releasing " + tag + ": CHANGELOG.md has no section [" + version + "], or an empty one; rename the section [Unreleased] to [" + version + "]\n"
	}
	for _, c := range []struct{ tag, sources, want, err string }{
		{tag: "v1.2.3", sources: "1.2.3", want: "### Added\n- A thing.\n"},
		{tag: "v1.2.2", sources: "1.2.2", want: "- Nothing.\n"},
		{tag: "v1.2.1", sources: "1.2.1", err: missing("v1.2.1", "1.2.1")},
		{tag: "v1.2.0", sources: "1.2.0", err: missing("v1.2.0", "1.2.0")},
		{tag: "v1.2.3", sources: "1.2.2", err: "releasing v1.2.3: internal/version/version.go says 1.2.2; tag the commit that has the version\n"},
	} {
		t.Run(c.tag+" of "+c.sources, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(folder, "internal/version"), 0o755))
			write(t, filepath.Join(folder, "internal/version/version.go"), "package version\n\nvar (\n\tVersion = \""+c.sources+"\"\n)\n")
			write(t, filepath.Join(folder, "CHANGELOG.md"), changelog)
			cmd := exec.CommandContext(t.Context(), script, c.tag)
			cmd.Dir = folder
			out, err := cmd.Output()
			assert.Equal(t, c.want, string(out))
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			assert.Equal(t, c.err, string(exit.Stderr))
		})
	}
	// The script finds the version in the real file.
	cmd := exec.CommandContext(t.Context(), script, "v0.0.0")
	cmd.Dir = root
	_, err = cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Regexp(t, `^releasing v0\.0\.0: internal/version/version\.go says \d+\.\d+\.\d+; `, string(exit.Stderr))
}

// kubernetesVersion is a complete version of Kubernetes in a page or an example.
var kubernetesVersion = regexp.MustCompile(`\b1\.[3-9][0-9]\.[0-9]+\b`)

// named is the version in a name that pages, help and errors show, such as that of an AMI.
var named = regexp.MustCompile(`debian[/-](1\.[0-9]+)`)

// Pages and examples show versions of the table, and the first is the default.
func TestPagesShowVersionsOfTheTable(t *testing.T) {
	known := lifecycle.Releases("kubelet")
	for _, name := range tracked(t) {
		if !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "/testdata/") && name != "CHANGELOG.md" {
			for _, found := range named.FindAllStringSubmatch(read(t, name), -1) {
				assert.True(t, strings.HasPrefix(lifecycle.Kubernetes(), found[1]+"."), "%s: %s", name, found[0])
			}
		}
		if name != "README.md" && path.Dir(name) != "docs" && !strings.HasPrefix(name, "examples/") {
			continue
		}
		for i, found := range kubernetesVersion.FindAllString(read(t, name), -1) {
			assert.Contains(t, known, found, name)
			if i == 0 && !strings.HasPrefix(name, "examples/cluster/") { // has a map that begins with an older version
				assert.Equal(t, lifecycle.Kubernetes(), found, name)
			}
		}
	}
}

// workflow has the fields of a GitHub workflow that the tests check.
type workflow struct {
	Name        string         `json:"name"`
	Permissions map[string]any `json:"permissions"`
	Jobs        map[string]struct {
		Timeout     int            `json:"timeout-minutes"`
		Permissions map[string]any `json:"permissions"`
		Steps       []struct {
			Uses string         `json:"uses"`
			Run  string         `json:"run"`
			With map[string]any `json:"with"`
		} `json:"steps"`
	} `json:"jobs"`
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	found := map[string]workflow{}
	for _, name := range tracked(t) {
		if path.Dir(name) != ".github/workflows" && (path.Dir(name) != "examples/github-actions" || path.Ext(name) != ".yml") {
			continue
		}
		var w workflow
		require.NoError(t, yaml.Unmarshal([]byte(read(t, name)), &w), name)
		found[name] = w
	}
	require.NotEmpty(t, found)
	return found
}

// An action must be pinned to its commit, because whoever owns an action can move its
// tags. The comment names the version, which Dependabot keeps.
var pinned = regexp.MustCompile(`^[\w.-]+/[\w.-]+(/[\w.-]+)*@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

func TestWorkflowsPinActionsAndCallExistingTargets(t *testing.T) {
	j := judge{t}
	for name, w := range workflows(t) {
		for line := range strings.Lines(read(t, name)) {
			if _, used, ok := strings.Cut(line, "uses:"); ok {
				assert.Regexp(t, pinned, strings.TrimSpace(used), name)
			}
		}
		for job, steps := range w.Jobs {
			assert.NotZero(t, steps.Timeout, "%s, %s: timeout-minutes is missing", name, job)
			for _, step := range steps.Steps {
				for line := range strings.Lines(step.Run) {
					line = strings.TrimSpace(line)
					if strings.HasPrefix(line, "make ") || strings.HasPrefix(line, "go run ") {
						assert.Empty(t, j.wrong(line), "%s: %s", name, line)
					}
				}
			}
		}
	}
}

// A job may write only what is listed here: tests, tools and actions run with the
// token of their job.
func TestWorkflowsHaveTheLeastPermissions(t *testing.T) {
	writing := map[string]map[string]any{
		".github/workflows/versions.yml versions": {"contents": "read", "issues": "write"},
		".github/workflows/aws.yml proof":         {"contents": "read", "id-token": "write"},
		".github/workflows/release.yml release":   {"contents": "write", "id-token": "write", "attestations": "write"},
		"examples/github-actions/image.yml image": {"contents": "read", "id-token": "write"},
	}
	for name, w := range workflows(t) {
		assert.Equal(t, map[string]any{"contents": "read"}, w.Permissions, "%s: permissions", name)
		for job, j := range w.Jobs {
			assert.Equal(t, writing[name+" "+job], j.Permissions, "%s, %s: permissions", name, job)
			for _, step := range j.Steps {
				if strings.HasPrefix(step.Uses, "actions/checkout@") {
					assert.Equal(t, false, step.With["persist-credentials"], "%s, %s: checkout keeps the token on the disk", name, job)
				}
				if len(j.Permissions) > 0 {
					assert.NotRegexp(t, `make (.* )?(test|e2e|image)`, step.Run, "%s, %s: tests run with permission to write", name, job)
				}
			}
		}
	}
	assert.NotContains(t, read(t, ".github/workflows/release.yml"), "actions/cache@", "another workflow may have filled the cache")
}

// Every week, each shape runs as a job of its own, and its table is kept. The list of
// the jobs comes from the shapes themselves, so no shape can be missing.
func TestEveryShapeRunsWeekly(t *testing.T) {
	text := read(t, ".github/workflows/shapes.yml")
	assert.Regexp(t, `(?m)^ +- cron: "\d+ \d+ \* \* [0-6]"$`, text)
	for _, line := range []string{
		"basename --multiple --suffix .txtar e2e/shape/shapes/* | " +
			"jq --raw-input --null-input --compact-output '[inputs]' > names",
		`echo "names=$(cat names)" >> "$GITHUB_OUTPUT"`, "names: ${{ steps.names.outputs.names }}",
		"shape: ${{ fromJSON(needs.names.outputs.names) }}", `- run: make e2e-full DISTRO="$SHAPE"`, "SHAPE: ${{ matrix.shape }}", "if: always()",
	} {
		assert.Contains(t, text, " "+line+"\n")
	}
	steps := workflows(t)[".github/workflows/shapes.yml"].Jobs["join"].Steps
	keep := steps[len(steps)-1]
	assert.Contains(t, keep.Uses, "actions/upload-artifact@")
	assert.Contains(t, keep.With["path"], "build/join/*.txt")
}

// actionlint checks the syntax, the expressions, what jobs take from each other, and the
// scripts with shellcheck.
func TestWorkflowsPassActionlint(t *testing.T) {
	for name := range workflows(t) {
		linter, err := actionlint.NewLinter(t.Output(), &actionlint.LinterOptions{Shellcheck: "shellcheck"})
		require.NoError(t, err)
		found, err := linter.Lint(name, []byte(read(t, name)), nil)
		require.NoError(t, err)
		assert.Empty(t, found)
	}
}

// Only the chain on the shape runs with DISTRO.
func TestOneShapeOfTheLongTests(t *testing.T) {
	j := judge{t}
	said, err := j.try("make", "-nB", "e2e-full", "DISTRO=arch")
	require.NoError(t, err, said)
	assert.Contains(t, said, "-tags e2e,full ./e2e/join -run '^TestChainOnShapes$' -distro arch\n")
	assert.NotContains(t, said, "./e2e/kills")
	said, err = j.try("make", "-nB", "e2e-full")
	require.NoError(t, err, said)
	assert.Contains(t, said, "./e2e/kills -kills 100")
	assert.Contains(t, said, "./e2e/join -distro arch,amazonlinux2023")
	assert.Contains(t, said, "make e2e PACKER=1.12.0", "the oldest Packer that the pages name")
}

// Dependabot updates eksnode's modules, those of the tools, and the actions.
func TestDependabotCoversAllDependencies(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem string `json:"package-ecosystem"`
		} `json:"updates"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, ".github/dependabot.yml")), &config))
	var names []string
	for _, u := range config.Updates {
		names = append(names, u.Ecosystem)
	}
	assert.ElementsMatch(t, []string{"gomod", "gomod", "github-actions"}, names)
}
