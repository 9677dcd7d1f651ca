package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest"
)

// Table is lines of cells under a head. The first column is set to the left,
// the others, which hold figures, to the right.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// String is the table as text, each line ended.
func (t Table) String() string {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	if t.Title != "" {
		fmt.Fprintf(&out, "%s\n", t.Title)
	}
	line := func(row []string) {
		var text strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				text.WriteString("  " + cell + gap)
			} else {
				text.WriteString("  " + gap + cell)
			}
		}
		out.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	line(t.Head)
	for _, row := range t.Rows {
		line(row)
	}
	return out.String()
}

// contestTable shows each contestant's times and how the first one compares.
func contestTable(c contest.Outcome) Table {
	t := Table{Title: c.Name, Head: []string{"", "median s", "fastest", "slowest", "rounds", "first's ratio to it", "by round"}}
	for i, one := range c.Contestants {
		ratio, spread := "", ""
		if i > 0 {
			low, high := c.Spread(i)
			ratio, spread = fmt.Sprintf("%.3f", c.Ratio(i)), fmt.Sprintf("%.3f–%.3f", low, high)
		}
		t.Rows = append(t.Rows, []string{
			one.Name, fmt.Sprintf("%.3f", one.Median), fmt.Sprintf("%.3f", slices.Min(one.Seconds)),
			fmt.Sprintf("%.3f", slices.Max(one.Seconds)), fmt.Sprint(len(one.Seconds)), ratio, spread,
		})
	}
	return t
}

// countTable shows the medians of what was counted beside the times.
func countTable(c contest.Outcome) Table {
	t := Table{Head: []string{"counted (medians)"}}
	for _, one := range c.Contestants {
		t.Head = append(t.Head, one.Name)
	}
	for _, name := range countNames(c) {
		row := []string{name}
		for _, one := range c.Contestants {
			cell := ""
			if value, ok := one.Counts[name]; ok {
				cell = figure(value)
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func countNames(c contest.Outcome) []string {
	names := map[string]bool{}
	for _, one := range c.Contestants {
		for name := range one.Counts {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// figure is a number in as many digits as tell it from its goal.
func figure(value float64) string {
	if value == math.Trunc(value) || math.Abs(value) >= 1000 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 4, 64)
}
