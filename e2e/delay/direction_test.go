package delay

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Under a clock that stands still while anybody works, a transfer takes what
// the line takes and nothing else: delays overlap, loads add up.
func TestTransferTakesTheLinesTime(t *testing.T) {
	for _, test := range []struct {
		name string
		link Link
		size int
		want time.Duration
	}{
		{"one delay, not one for each read", Link{Delay: time.Second}, 10 << 20, time.Second},
		{"load and delay", Link{Delay: time.Second, BytesPerSecond: 1 << 20}, 4 << 20, 5 * time.Second},
		{"load alone", Link{BytesPerSecond: 1 << 20}, 4 << 20, 4 * time.Second},
		{"more than the window", Link{Delay: time.Second}, 70 << 20, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				data := bytes.Repeat([]byte("0123456789abcdef"), test.size/16)
				way := direction{link: test.link, queue: newQueue(test.link.window())}
				var got sink
				begin := time.Now()
				go way.send(bytes.NewReader(data))
				way.receive(t.Context(), &got, func() { t.Error("broken off") })
				assert.InDelta(t, test.want, time.Since(begin), float64(time.Millisecond), "%s", time.Since(begin))
				assert.True(t, bytes.Equal(data, got.Bytes()), "%d bytes of %d", got.Len(), len(data))
				assert.True(t, got.ended)
			})
		})
	}
}

// sink stands at the receiving end.
type sink struct {
	bytes.Buffer
	ended bool
}

func (s *sink) CloseWrite() error {
	s.ended = true
	return nil
}
