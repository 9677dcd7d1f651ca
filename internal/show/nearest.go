package show

import "strings"

// Meant returns "; did you mean NAME?" with the known name that is most similar to an
// unknown one, or an empty text.
func Meant(name string, known []string) string {
	if best := Nearest(name, known); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// Nearest returns the known name that is most similar to an unknown name, or an empty
// text.
func Nearest(name string, known []string) string {
	if len(name) > 100 {
		return ""
	}
	best, distance := "", len(name)/2+1
	for _, n := range known {
		d, a, b := Edits(name, n), strings.ToLower(name), strings.ToLower(n)
		if len(b) > 2 && strings.Contains(a, b) || len(a) > 2 && strings.Contains(b, a) {
			d = min(d, len(name)/2) // clusterName means name
		}
		if d < distance {
			best, distance = n, d
		}
	}
	return best
}

// Edits returns the number of single-character changes between two words, whatever
// their case.
func Edits(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
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
