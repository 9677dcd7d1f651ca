package templates

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each placeholder occurs once, because bootstrap.sh's sed replaces every
// occurrence.
func TestEachTemplateHasItsPlaceholdersOnce(t *testing.T) {
	want := map[string][]string{
		Kubeconfig:       {"MASTER_ENDPOINT", "CLUSTER_NAME", "AWS_REGION"},
		KubeletConfig:    nil,
		ContainerdConfig: {"SANDBOX_IMAGE"},
	}
	for _, tmpl := range All() {
		assert.Contains(t, want, tmpl.Path)
		assert.NotEmpty(t, tmpl.Use)
		for _, placeholder := range []string{"MASTER_ENDPOINT", "CLUSTER_NAME", "AWS_REGION", "SANDBOX_IMAGE"} {
			times := map[bool]int{true: 1}[slices.Contains(want[tmpl.Path], placeholder)]
			assert.Equal(t, times, strings.Count(string(tmpl.Content), placeholder), "%s in %s", placeholder, tmpl.Path)
		}
		if strings.HasSuffix(tmpl.Path, ".json") {
			assert.True(t, json.Valid(tmpl.Content))
		}
	}
	assert.Len(t, All(), len(want))
}
