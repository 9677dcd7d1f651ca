package checks

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
