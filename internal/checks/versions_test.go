package checks

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/internal/lifecycle"
)

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
