package scrub

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

func TestAuditHasNoFieldsThatChangeTheMachine(t *testing.T) {
	spec := new(Audit).ConfigSpec()
	for _, field := range changing {
		assert.NotContains(t, spec, field)
	}
	assert.Contains(t, spec, "report")
}

func TestAuditReadsItsFields(t *testing.T) {
	var a Audit
	require.NoError(t, a.Prepare(fields{"rules": []any{"inspect"}, "distro": "debian"}))
	assert.Equal(t, scrub.Spec{Distro: "debian", Only: []string{"inspect"}, Node: scrub.NodeAuto}, a.Config.Spec)
	require.NoError(t, a.Prepare(fields{"node": "no"}))
	assert.Equal(t, scrub.NodeNo, a.Config.Node)
}
