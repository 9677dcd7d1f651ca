package scrub

import (
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

var _ packersdk.Provisioner = new(Audit)

func TestAuditHasNoFieldsThatChangeTheMachine(t *testing.T) {
	var a Audit
	spec := a.ConfigSpec()
	for _, field := range changing {
		assert.NotContains(t, spec, field)
		require.ErrorContains(t, a.Prepare(fields{field: "x"}), field+" is a field of eksnode-scrub, and has no effect")
	}
	assert.Contains(t, spec, "report")
}

func TestAuditChecksItsRules(t *testing.T) {
	var a Audit
	require.NoError(t, a.Prepare(fields{"rules": []any{"inspect"}, "distro": "debian"}), "a scrub would change nothing")
	assert.Equal(t, scrub.Spec{Distro: "debian", Only: []string{"inspect"}, Node: scrub.NodeAuto}, a.config.Spec)
	a = Audit{}
	require.NoError(t, a.Prepare(fields{"node": "no"}))
	assert.Equal(t, scrub.NodeNo, a.config.Node)
	require.ErrorContains(t, a.Prepare(fields{"node": "none"}), `node: "none" is not known; known: auto, yes, no`)
	require.ErrorContains(t, a.Prepare(fields{"rules": []any{"quiesce"}}), "so an audit would check nothing")
	require.ErrorContains(t, a.Prepare(fields{"rulez": []any{"x"}}), `unknown configuration key: '"rulez"'`)
	require.ErrorContains(t, a.Prepare(fields{"distro": "slackware"}), `distro "slackware" is not known`)
}
