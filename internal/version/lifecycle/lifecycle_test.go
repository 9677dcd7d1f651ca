package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every row has a source, and a day where something ends.
func TestRowsAreComplete(t *testing.T) {
	for _, r := range All() {
		assert.NotEmpty(t, r.ID+r.Version)
		assert.True(t, strings.HasPrefix(r.Source, "https://"), "%+v", r)
		assert.Equal(t, r.Of == "", r.Ends == "", "%+v", r)
		if r.Ends != "" {
			_, err := time.Parse(time.DateOnly, r.Ends)
			require.NoError(t, err, "%+v", r)
		}
		assert.True(t, r.Newest == "" || strings.HasPrefix(r.Newest, r.Version+"."), "%+v", r)
	}
}

// What eksnode installs by itself is supported on the day on which the table was checked.
func TestDefaultsAreSupported(t *testing.T) {
	for id, want := range map[string]string{"kubelet": "1.36.", "containerd": "2.3.", "runc": "1.5.",
		"cni-plugins": "1.10.", "ecr-credential-provider": "1.37."} {
		assert.True(t, strings.HasPrefix(Default(id), want), "%s %s", id, Default(id))
		for _, r := range Line(id, Default(id)) {
			assert.True(t, r.Ends == "" || r.Ends > Checked, "%+v", r)
		}
	}
	assert.Equal(t, Kubernetes(), Releases("kubelet")[0])
	assert.Contains(t, Releases("kubelet"), "1.37.2")
}

func TestLine(t *testing.T) {
	assert.Equal(t, "2026-07-03", Line("containerd", "2.1.6")[0].Ends)
	assert.Equal(t, "2026-09-30", Line("containerd", "1.7")[0].Ends)
	assert.Empty(t, Line("containerd", "2"))
	assert.Empty(t, Line("kubelet", "1.3.6"))
	assert.Len(t, Line("debian", "12"), 2)
}
