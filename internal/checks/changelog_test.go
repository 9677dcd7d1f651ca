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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/lifecycle"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
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
	const changelog = `# Changelog

## [Unreleased]

- Something new.

## [1.2.3] - 2026-01-02

### Added
- A thing.

## [1.2.2] - 2025-12-01
- Nothing.

## [1.2.1]

[1.2.3]: https://example.com
`
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

// Pages and examples show versions of the table, and the first is the default.
func TestPagesShowVersionsOfTheTable(t *testing.T) {
	known := lifecycle.Releases("kubelet")
	for _, name := range tracked(t) {
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
