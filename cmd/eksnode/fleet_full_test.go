//go:build e2e && full && linux && !agent

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// Of 200 nodes, little more is read than what has changed.
func TestALargeFleetIsReadByItsChanges(t *testing.T) {
	_, double := driftedNodes(t, 200)
	out, _ := exits(t, 1, "fleet", "audit", "--cluster", "demo", "--output", "json", "--rules", "machine-id")
	r := testkit.JSON[fleetReport](t, out)
	require.Len(t, r.Nodes, 200)
	changed := 0
	for _, n := range r.Nodes {
		assert.Empty(t, n.Error)
		changed += n.Blocks
	}
	ratio := float64(double.Count().Fetched/ebsdirect.BlockSize) / float64(changed)
	t.Logf("%d blocks changed, read %.2f times", changed, ratio)
	assert.LessOrEqual(t, ratio, 1.2)
}

// Every fault at every call, and some again with a second fault in the run after it.
func TestAllFleetsKeepTheirPromises(t *testing.T) {
	for _, s := range fleets(t) {
		t.Run(s.Name, func(t *testing.T) { s.Enumerate(t, s.Cases(t, 6)) })
	}
}
