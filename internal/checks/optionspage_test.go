package checks

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page about options names tests that exist.
func TestTheTestsOfOptionsExist(t *testing.T) {
	names := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(read(t, "docs/reference/options.md"), -1)
	require.NotEmpty(t, names)
	var tests strings.Builder
	for _, s := range sources(t) {
		if s.isTest() {
			tests.WriteString(read(t, s.name))
		}
	}
	for _, name := range names {
		assert.True(t, strings.Contains(tests.String(), "func "+name+"("), "docs/reference/options.md: there is no %s", name)
	}
}
