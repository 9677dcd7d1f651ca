package main

import (
	"bytes"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
)

// stopwatch is a screen that knows when a block's session came how far: the
// lines that plugin/remote prints tell.
type stopwatch struct {
	now  func() time.Time
	said bytes.Buffer
	// When the run began, the probe had answered, the agent had its first step
	// to do, and the last line came.
	begun, probed, started, last time.Time
}

func newStopwatch(now func() time.Time) *stopwatch { return &stopwatch{now: now, begun: now()} }

// Write implements io.Writer; Packer's UI calls it once for each line.
func (w *stopwatch) Write(line []byte) (int, error) {
	w.last = w.now()
	switch text := string(line); {
	case w.probed.IsZero() && strings.Contains(text, "Machine: "):
		w.probed = w.last
	case w.started.IsZero() && !w.probed.IsZero() && !strings.Contains(text, "Sending the agent"):
		w.started = w.last
	}
	return w.said.Write(line)
}

// counts are the lengths of a finished run's parts.
func (w *stopwatch) counts() contest.Counts {
	return contest.Counts{
		"1. probe, s":                     w.probed.Sub(w.begun).Seconds(),
		"2. upload and start of agent, s": w.started.Sub(w.probed).Seconds(),
		"3. steps, s":                     w.last.Sub(w.started).Seconds(),
		"4. end of session, report, s":    w.now().Sub(w.last).Seconds(),
	}
}
