package delay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLink(t *testing.T) {
	for _, test := range []struct {
		name          string
		link          Link
		window, chunk int
		carrying      time.Duration // of 1 MB
	}{
		{"no limit", Link{Delay: 10 * time.Millisecond}, 64 << 20, 64 << 10, 0},
		{"10 MB/s", Link{Delay: 10 * time.Millisecond, BytesPerSecond: 10e6}, 200_000 + 256<<10, 64 << 10, 100 * time.Millisecond},
		{"1 MB/s", Link{Delay: 10 * time.Millisecond, BytesPerSecond: 1e6}, 20_000 + 256<<10, 10_000, time.Second},
		{"a modem", Link{Delay: time.Second, BytesPerSecond: 7000}, 14_000 + 256<<10, 1460, 142857142857},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.window, test.link.window())
			assert.Equal(t, test.chunk, test.link.chunk())
			assert.Equal(t, test.carrying, test.link.carrying(1e6))
		})
	}
}
