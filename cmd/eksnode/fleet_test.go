//go:build !agent

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Names, versions and reasons come from the disk of a node, which may be hostile.
func TestDisksOfNodesForgeNoLines(t *testing.T) {
	const hostile = "1\nunknown        i-2: forged"
	r := fleetReport{
		Drift: []drift{{"package", hostile, hostile, []string{"i-1"}}},
		Nodes: []fleetNode{{Instance: "i-1", Error: hostile,
			Findings: []fleetFinding{{"r", plan.Finding{Target: hostile, Reason: hostile}}}}},
	}
	var out strings.Builder
	r.text(newPrinter(&out))
	assert.NotContains(t, out.String(), "\nunknown        i-2")
}
