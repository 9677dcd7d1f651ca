//go:build linux

package scrub_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// kind is what an explanation explains.
type kind int

const (
	differ kind = iota // a difference of the scrubbed machine from its twin
	carry              // a mark that stays
	report             // a finding of the audit after the scrub
	ship               // a difference of the scrubbed twin from the twin
)

// explanation says why something about these machines stays. The pattern is for
// the whole line without the part after ": ". "*" matches within a name, "**"
// also across folders.
type explanation struct {
	kind     kind
	machines string // names, separated by blanks
	pattern  string
	why      string
}

func (e explanation) of(machine string) bool {
	return slices.Contains(strings.Fields(e.machines), machine)
}

func (e explanation) explains(line string) bool {
	line, _, _ = strings.Cut(line, ": ")
	expression := strings.NewReplacer(`\*\*`, `.*`, `\*`, `[^/]*`).Replace(regexp.QuoteMeta(e.pattern))
	return regexp.MustCompile(`^` + expression + `$`).MatchString(line)
}

// explained returns the lines that no explanation explains. An explanation that
// explains no line fails the test: it hides a later mistake.
func explained(t *testing.T, machine string, lines []string, k kind) (left []string) {
	t.Helper()
	used := map[int]bool{}
	for _, line := range lines {
		known := false
		for n, e := range explanations {
			if e.kind == k && e.of(machine) && e.explains(line) {
				used[n], known = true, true
			}
		}
		if !known {
			left = append(left, line)
		}
	}
	for n, e := range explanations {
		if e.kind == k && e.of(machine) {
			assert.True(t, used[n], "%s: nothing is %q any more: delete its explanation", machine, e.pattern)
		}
	}
	return left
}

func TestEveryExplanationHasAMachineAndAReason(t *testing.T) {
	for _, e := range explanations {
		assert.NotEmpty(t, e.why, e.pattern)
		assert.NotEmpty(t, strings.Fields(e.machines), e.pattern)
		for _, name := range strings.Fields(e.machines) {
			assert.Contains(t, machines, name, e.pattern)
		}
	}
}
