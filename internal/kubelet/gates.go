package kubelet

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed gates.txt
var gateTable string

// gate is a feature gate in one minor version.
type gate struct {
	stage      string // alpha, beta, ga or deprecated
	on, locked bool
	requires   []string
}

// groupName is the ending of AllAlpha or AllBeta, which set all gates of a stage.
func (g gate) groupName() string {
	return map[string]string{"alpha": "Alpha", "beta": "Beta"}[g.stage]
}

// gates maps each minor version to the function that reads its feature gates. Most
// programs need those of one version.
var gates = func() map[int]func() map[string]gate {
	all := map[int]func() map[string]gate{}
	for minor := Oldest; minor <= Newest; minor++ {
		all[minor] = sync.OnceValue(func() map[string]gate { return readGates(minor) })
	}
	return all
}()

func readGates(minor int) map[string]gate {
	all := map[string]gate{}
	for line := range strings.Lines(gateTable) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] == "#" {
			continue
		}
		for _, span := range words[1:] {
			parts := strings.Split(span, ":")
			from, to, _ := strings.Cut(parts[0], "-")
			first, err := strconv.Atoi(from)
			last, err2 := strconv.Atoi(to)
			if err != nil || err2 != nil || len(parts) < 2 {
				panic("gates.txt is damaged: " + line) // a test reads the table
			}
			if minor < first || minor > last {
				continue
			}
			g := gate{stage: parts[1], on: slices.Contains(parts, "on"), locked: slices.Contains(parts, "locked")}
			if needs, found := strings.CutPrefix(parts[len(parts)-1], "needs="); found {
				g.requires = strings.Split(needs, ",")
			}
			all[words[0]] = g
		}
	}
	return all
}

// gatesOf returns the feature gates of a minor version, or nil for an unknown version.
func gatesOf(minor int) map[string]gate {
	if read, ok := gates[minor]; ok {
		return read()
	}
	return nil
}

// Gates lists the feature gates of all minor versions.
func Gates() []string {
	names := map[string]bool{}
	for minor := range gates {
		for name := range gatesOf(minor) {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// gateProblems reports gates that the kubelet does not have, and values that are fixed.
// It panics in the kubelet's defaults for the first kind.
func (c config) gateProblems() []Problem {
	var problems []Problem
	add := func(name, format string, args ...any) {
		problems = append(problems, Problem{Field: "featureGates." + name, Text: fmt.Sprintf(format, args...)})
	}
	set, _ := object(c.get("featureGates"))
	known := gatesOf(c.minor)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		value, isBool := set[name].(bool)
		g, there := known[name]
		switch {
		case !isBool: // another type is reported elsewhere
		case !there:
			add(name, "the kubelet has no such feature gate and does not start")
		case g.locked && value != g.on:
			add(name, "the feature gate is fixed to %v", g.on)
		}
	}
	if len(problems) > 0 {
		return problems
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		for _, need := range known[name].requires {
			if _, there := known[need]; there && c.gate(name) && !c.gate(need) {
				blame := name
				if _, given := set[need]; given {
					blame = need
				}
				add(blame, "%s is on, which requires %s", name, need)
			}
		}
	}
	return problems
}
