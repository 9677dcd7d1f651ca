package contest

import (
	"math"
	"slices"
)

// Outcome is what a contest found.
type Outcome struct {
	Name        string   `json:"name"`
	Contestants []Timing `json:"contestants"`
}

// Timing is what one contestant needed.
type Timing struct {
	Name    string    `json:"name"`
	Seconds []float64 `json:"seconds"` // of each round, in order
	// Median is that of Seconds; Counts holds the medians of what was counted.
	Median float64 `json:"median_seconds"`
	Counts Counts  `json:"counts,omitempty"`

	counts map[string][]float64
}

func (t *Timing) add(seconds float64, counts Counts) {
	t.Seconds = append(t.Seconds, seconds)
	t.Median = Median(t.Seconds)
	for name, value := range counts {
		t.counts[name] = append(t.counts[name], value)
		if t.Counts == nil {
			t.Counts = Counts{}
		}
		t.Counts[name] = Median(t.counts[name])
	}
}

// Ratio is the first contestant's median to that of contestant i: under 1, the
// first one is faster.
func (o Outcome) Ratio(i int) float64 {
	return o.Contestants[0].Median / o.Contestants[i].Median
}

// Spread is the smallest and the largest ratio of a single round.
func (o Outcome) Spread(i int) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for round, seconds := range o.Contestants[0].Seconds {
		ratio := seconds / o.Contestants[i].Seconds[round]
		low, high = min(low, ratio), max(high, ratio)
	}
	return low, high
}

// Median is the middle value, or the mean of the middle two; of nothing it is
// not a number.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
