package kubelet

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict is a problem and the minor versions whose kubelets have it.
type Verdict struct {
	Problem
	// Always says that no kubelet between Oldest and Newest starts.
	Always bool
}

// Verdicts is Problems for user data, whose kubelet is unknown: base returns the base
// configuration for a minor version. A problem of some minor versions names them.
func Verdicts(base func(minor int) map[string]any, user map[string]any, flags []string) []Verdict {
	minors, byField := map[Problem][]int{}, map[string]int{}
	var order []Problem
	for minor := Oldest; minor <= Newest; minor++ {
		fields := map[string]bool{}
		for _, p := range Problems(minor, base(minor), user, flags) {
			if minors[p] == nil {
				order = append(order, p)
			}
			minors[p] = append(minors[p], minor)
			fields[p.Field] = true
		}
		for field := range fields {
			byField[field]++
		}
	}
	var verdicts []Verdict
	for _, p := range order {
		v := Verdict{p, byField[p.Field] == Newest-Oldest+1}
		if len(minors[p]) <= Newest-Oldest {
			v.Text = p.Text + ": " + span(minors[p])
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// span names the kubelets of minor versions.
func span(minors []int) string {
	first, last := minors[0], minors[len(minors)-1]
	switch {
	case last-first >= len(minors):
		var list []string
		for _, m := range minors {
			list = append(list, fmt.Sprintf("1.%d", m))
		}
		return "kubelets " + strings.Join(list, ", ")
	case last == Newest:
		return fmt.Sprintf("kubelet 1.%d and newer", first)
	case first == Oldest:
		return fmt.Sprintf("kubelet 1.%d and older", last)
	case first == last:
		return fmt.Sprintf("kubelet 1.%d", first)
	}
	return fmt.Sprintf("kubelets 1.%d to 1.%d", first, last)
}

// FlagOf returns the index of the last argument that sets a field, or -1.
func FlagOf(field string, arguments []string) int {
	for i, argument := range slices.Backward(arguments) {
		name, _, _ := strings.Cut(argument, "=")
		if f := Flags()[FlagName(name)].Field; f != "" && strings.HasPrefix(argument, "-") && (f == field || strings.HasPrefix(field, f+".")) {
			return i
		}
	}
	return -1
}
