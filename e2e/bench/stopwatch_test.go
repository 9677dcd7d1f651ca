package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/bed"
	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
)

func TestStopwatch(t *testing.T) {
	var now time.Time
	w := newStopwatch(func() time.Time { return now })
	ui := bed.Screen(w)
	for _, line := range []string{"Machine: Debian", "Sending the agent", "Phase: state", "  some rule", "Phase: access", "Done"} {
		now = now.Add(time.Second)
		ui.Say(line)
	}
	now = now.Add(time.Second)
	assert.Equal(t, contest.Counts{
		"1. probe, s": 1, "2. upload and start of agent, s": 2, "3. steps, s": 3, "4. end of session, report, s": 1,
	}, w.counts())
	require.Equal(t, "Machine: Debian\nSending the agent\nPhase: state\n  some rule\nPhase: access\nDone\n", w.said.String())
}
