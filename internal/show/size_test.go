package show

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 61_234_567: "61.2 MB",
		999_949: "999.9 kB", 999_950: "1.0 MB", 2_500_000_000: "2.5 GB", 1 << 60: "1152921.5 TB",
	} {
		assert.Equal(t, want, Size(bytes), bytes)
	}
}

func TestLength(t *testing.T) {
	for span, want := range map[time.Duration]string{
		0: "0 ms", 999 * time.Millisecond: "999 ms", 1400 * time.Millisecond: "1.4 s",
		59 * time.Second: "59.0 s", 125 * time.Second: "2 min 5 s",
	} {
		assert.Equal(t, want, Length(span), span)
	}
}

func TestCount(t *testing.T) {
	assert.Equal(t, "1 action", Count(1, "action"))
	assert.Equal(t, "0 actions", Count(0, "action"))
	assert.Equal(t, "2 files", Count(int64(2), "file"))
}
