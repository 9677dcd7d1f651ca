package version

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A release links to its own pages: those of the branch main describe newer ones.
func TestPagesAreThoseOfTheVersion(t *testing.T) {
	assert.Equal(t, "https://github.com/eksnode/packer-plugin-eksnode/blob/main/docs/join.md", Page("join.md"))
	t.Cleanup(func() { Version, VersionPrerelease = "0.1.0", "dev" })
	Version, VersionPrerelease = "1.2.3", ""
	assert.Equal(t, "https://github.com/eksnode/packer-plugin-eksnode/blob/v1.2.3/docs/join.md", Page("join.md"))
}
