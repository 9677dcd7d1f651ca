package remote

import (
	"fmt"
	"time"
)

// size is a number of bytes as a person reads it, in powers of a thousand.
func size(bytes int64) string {
	units := []string{"kB", "MB", "GB", "TB"}
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}
	value := float64(bytes) / 1000
	unit := 0
	for value >= 999.95 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// length is a time span as a person reads it.
func length(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
