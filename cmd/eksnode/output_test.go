package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/internal/console"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// An audit prints its phases at the end. Meanwhile it prints only the rule that takes
// long.
func TestLongAuditsShowTheRuleThatRuns(t *testing.T) {
	var printed bytes.Buffer
	now := time.Unix(0, 0)
	c := console.New(lines{newPrinter(&printed)}, console.Options{Command: "audit", Now: func() time.Time { return now }})
	w := waiting{c}
	w.Begin("machine-id", "identity", 1)
	w.End(plan.Outcome{Item: "machine-id", Phase: "identity", Status: plan.Unchanged})
	w.Begin("secrets-left", "inspect", 1)
	c.Tick()
	now = now.Add(30 * time.Second)
	c.Tick()
	c.Close()
	assert.Equal(t, "  secrets-left: still working after 30.0 s\n", printed.String())
}
