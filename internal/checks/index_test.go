package checks

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A newcomer finds every page from the index, and a README in every example.
func TestTheIndexListsEveryPage(t *testing.T) {
	for _, page := range pages(t) {
		for folder, index := range map[string]string{"docs": "docs/README.md", "docs/design": "docs/README.md", "examples": "examples/README.md"} {
			at := strings.TrimPrefix(page, path.Dir(index)+"/")
			if page != index && (path.Dir(page) == folder || folder == "examples" && path.Dir(path.Dir(page)) == folder) {
				assert.Contains(t, read(t, index), "]("+at+")", "%s does not list %s", index, page)
			}
		}
	}
	for _, name := range tracked(t) {
		if example, rest, _ := strings.Cut(strings.TrimPrefix(name, "examples/"), "/"); strings.HasPrefix(name, "examples/") && rest != "" {
			assert.True(t, exists("examples/"+example+"/README.md"), "examples/%s has no README", example)
		}
	}
}
