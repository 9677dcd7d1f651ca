package checks

import (
	"regexp"
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
