package nodeconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// nearest returns "did you mean NAME?" for an unknown name, or the list of known names.
func nearest[V any](name string, known map[string]V) string {
	names := slices.Sorted(maps.Keys(known))
	if best := Nearest(name, names); best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "known are " + strings.Join(names, ", ")
}

// Nearest returns the known name that is most similar to an unknown name, or an empty
// text.
func Nearest(name string, names []string) string {
	if len(name) > 100 {
		return ""
	}
	best, distance := "", len(name)/2+1
	for _, n := range names {
		a, b := strings.ToLower(name), strings.ToLower(n)
		d := edits(a, b)
		if len(b) > 2 && strings.Contains(a, b) || len(a) > 2 && strings.Contains(b, a) {
			d = min(d, len(name)/2) // clusterName means name
		}
		if d < distance {
			best, distance = n, d
		}
	}
	return best
}

// edits returns the number of single-character changes between two words.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = min(diagonal, row[j], row[j+1]) + 1
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
