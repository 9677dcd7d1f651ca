package secrets

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every expression compiles. Only an audit compiles them otherwise.
func TestExpressionsCompile(t *testing.T) {
	for _, p := range All() {
		for _, re := range []func() *regexp.Regexp{p.Re, p.then, p.sample} {
			assert.NotPanics(t, func() { _ = re == nil || re() != nil }, p.Kind)
		}
	}
}

func TestMistakesInTheTableAreErrors(t *testing.T) {
	const table = "parts: {a: b}\npatterns:\n- "
	for row, want := range map[string]string{
		"{kind: a, hints: [b], re: c, least: 1}":   "t.yaml:3: patterns[0].least: unknown field; known are below, digit",
		"{kind: a, hints: [b], re: c, text: yes1}": "t.yaml:3: patterns[0].text: must be true or false, not text",
		"{kind: a, hints: [b], re: '{c}'}":         "t.yaml: a: there is no part {c}",
		"{kind: a, hints: ['{c}'], re: b}":         "t.yaml: a: there is no list {c}",
		"{kind: a, in: b, re: c}":                  "t.yaml: a: there is no function b",
		"{kind: a, re: b}":                         "t.yaml: a: a pattern needs hints, or files that it selects",
	} {
		_, err := readTable("t.yaml", []byte(table+row))
		require.ErrorContains(t, err, want)
	}
}
