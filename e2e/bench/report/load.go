package report

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Load is how busy the machine was with everything that ran on it.
type Load struct {
	Average float64 `json:"load_average"` // runnable and waiting tasks over the last minute
	// Busy and Ticks are the processors' time since boot, in clock ticks.
	Busy  float64 `json:"-"`
	Ticks float64 `json:"-"`
}

// ReadLoad asks the kernel; see proc(5) for loadavg and stat.
func ReadLoad() (Load, error) {
	average, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return Load{}, fmt.Errorf("reading the machine's load: %w", err)
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Load{}, fmt.Errorf("reading the machine's load: %w", err)
	}
	return parseLoad(string(average), string(stat))
}

// idleColumns are those of /proc/stat's first line in which nobody worked:
// idle and iowait. Guests' time is in user's already, so later columns do not
// count.
const idleFirst, idleLast, lastColumn = 3, 4, 7

func parseLoad(average, stat string) (Load, error) {
	var l Load
	first, _, _ := strings.Cut(average, " ")
	var err error
	if l.Average, err = strconv.ParseFloat(first, 64); err != nil {
		return l, fmt.Errorf("reading the machine's load: %w", err)
	}
	line, _, _ := strings.Cut(stat, "\n")
	columns, ok := strings.CutPrefix(line, "cpu ")
	if !ok {
		return l, fmt.Errorf("reading the machine's load: /proc/stat begins with %.40q", line)
	}
	for i, column := range strings.Fields(columns) {
		ticks, err := strconv.ParseFloat(column, 64)
		if err != nil {
			return l, fmt.Errorf("reading the machine's load: %w", err)
		}
		if i > lastColumn {
			break
		}
		l.Ticks += ticks
		if i < idleFirst || i > idleLast {
			l.Busy += ticks
		}
	}
	return l, nil
}

// BusySince is the share of the processors' time that was used since an earlier
// look, by everybody.
func (l Load) BusySince(earlier Load) float64 {
	if l.Ticks <= earlier.Ticks {
		return 0
	}
	return (l.Busy - earlier.Busy) / (l.Ticks - earlier.Ticks)
}
