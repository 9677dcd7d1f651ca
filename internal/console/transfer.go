package console

import (
	"fmt"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// Transfer describes the progress of an upload or a download. Its methods may be
// called concurrently.
type Transfer struct {
	// Now is the clock.
	Now func() time.Time
	// Every is the shortest time between two lines.
	Every time.Duration

	mutex sync.Mutex
	// samples are the states of the last seconds, oldest first.
	samples []sample
	spoke   time.Time
}

// sample is a state of a transfer, in bytes.
type sample struct {
	at          time.Time
	done, moved int64
}

// window is how much of the past counts for the rate.
const window = 20 * time.Second

// Line returns a line about a transfer if the last line is long enough ago. Of total
// bytes, done are finished, and moved are those that were sent or received.
func (t *Transfer) Line(done, moved, total int64) (string, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := t.Now()
	if len(t.samples) == 0 {
		t.samples, t.spoke = []sample{{now, done, moved}}, now
		return "", false
	}
	if now.Sub(t.spoke) < t.Every {
		return "", false
	}
	t.spoke = now
	for len(t.samples) > 1 && now.Sub(t.samples[1].at) >= window {
		t.samples = t.samples[1:]
	}
	past := t.samples[0]
	t.samples = append(t.samples, sample{now, done, moved})
	seconds := now.Sub(past.at).Seconds()
	said := fmt.Sprintf("%d %% of %s", percent(done, total), show.Size(total))
	if seconds <= 0 {
		return said, true
	}
	said += fmt.Sprintf(", %.1f MB/s", float64(moved-past.moved)/1e6/seconds)
	if gained := done - past.done; gained > 0 && done < total {
		left := time.Duration(float64(total-done) / float64(gained) * seconds * float64(time.Second))
		said += ", " + show.Length(left.Round(time.Second)) + " left"
	}
	return said, true
}

func percent(done, total int64) int64 {
	if total <= 0 {
		return 100
	}
	return 100 * done / total
}
