package console

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTransfersHaveRateAndTimeLeft(t *testing.T) {
	now := time.Unix(0, 0)
	transfer := Transfer{Now: func() time.Time { return now }, Every: 10 * time.Second}
	const mb = 1_000_000
	for _, c := range []struct {
		after       time.Duration
		done, moved int64
		want        string
	}{
		{0, 0, 0, ""}, // the clock starts
		{9 * time.Second, 90 * mb, 9 * mb, ""},
		{time.Second, 100 * mb, 10 * mb, "10 % of 1.0 GB, 1.0 MB/s, 1 min 30 s left"},
		{10 * time.Second, 200 * mb, 110 * mb, "20 % of 1.0 GB, 5.5 MB/s, 1 min 20 s left"},
		{10 * time.Second, 300 * mb, 210 * mb, "30 % of 1.0 GB, 10.0 MB/s, 1 min 10 s left"}, // of the last 20 seconds
		{20 * time.Second, 300 * mb, 210 * mb, "30 % of 1.0 GB, 0.0 MB/s"},                   // nothing moved
		{10 * time.Second, 1000 * mb, 310 * mb, "100 % of 1.0 GB, 3.3 MB/s"},
	} {
		now = now.Add(c.after)
		line, due := transfer.Line(c.done, c.moved, 1000*mb)
		assert.Equal(t, c.want, line)
		assert.Equal(t, c.want != "", due)
	}
}

func TestATransferOfNothingIsDone(t *testing.T) {
	now := time.Unix(0, 0)
	transfer := Transfer{Now: func() time.Time { return now }}
	transfer.Line(0, 0, 0)
	line, due := transfer.Line(0, 0, 0)
	assert.True(t, due)
	assert.Equal(t, "100 % of 0 B", line)
}
