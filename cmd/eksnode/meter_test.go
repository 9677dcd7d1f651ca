//go:build !agent

package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
)

// On a terminal one line changes and disappears at the end. Elsewhere there is a line
// every ten seconds.
func TestMetersPrintProgress(t *testing.T) {
	const first, second = "25 % of 2.1 MB, 0.0 MB/s, 30.0 s left", "50 % of 2.1 MB, 0.0 MB/s, 20.0 s left"
	for terminal, want := range map[bool]string{
		true:  "\r\x1b[K" + first + "\r\x1b[Kcopied\n\r\x1b[K" + second + "\r\x1b[K",
		false: first + "\ncopied\n" + second + "\n",
	} {
		var out bytes.Buffer
		now := time.Unix(0, 0)
		m := newMeter(&out)
		m.terminal, m.Now = terminal, func() time.Time { return now }
		m.upload(snapshot.Progress{Total: 4})
		now = now.Add(10 * time.Second)
		m.upload(snapshot.Progress{Read: 1, Total: 4})
		m.say("copied")
		now = now.Add(time.Second / 4)
		m.upload(snapshot.Progress{Read: 1, Total: 4})
		now = now.Add(10*time.Second - time.Second/4)
		m.upload(snapshot.Progress{Read: 2, Total: 4})
		m.end()
		m.end()
		assert.Equal(t, want, out.String())
	}
}
