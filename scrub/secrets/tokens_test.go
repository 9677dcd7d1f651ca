//go:build linux

package secrets

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// Many first lines of secrets in one file do not slow the search down: attempts
// are limited.
func TestAttemptsPerPatternAreLimited(t *testing.T) {
	tail := "\n" + strings.Repeat("a", 64)
	p := Pattern{Kind: "a", Hints: []string{"begin"}, Re: rule.Expression(`begin`), then: rule.Expression(`^\na{64}`)}
	for _, c := range []struct {
		before string
		want   []int64
	}{
		{strings.Repeat("begin\n", thenMost-1), []int64{thenMost}}, {strings.Repeat("begin\n", thenMost), nil},
		{strings.Repeat("begin ", thenMost/20), []int64{1}}, {strings.Repeat("begin ", thenMost), nil},
	} {
		assert.Equal(t, c.want, scanned(t, []Pattern{p}, c.before+"begin"+tail)["a"])
	}
}

// scanned returns the lines with matches by kind.
func scanned(t *testing.T, patterns []Pattern, text string) map[string][]int64 {
	t.Helper()
	lines := map[string][]int64{}
	s := scan{ctx: t.Context(), words: NewIndex(patterns), name: "/x", text: true, found: func(p *Pattern, at int64) { lines[p.Kind] = append(lines[p.Kind], at) }}
	require.NoError(t, s.read(strings.NewReader(text)))
	return lines
}

// FuzzIndex checks that a search for all patterns finds the same as a search for
// each pattern.
func FuzzIndex(f *testing.F) {
	patterns := append(All(), HostPatterns...)
	patterns = slices.DeleteFunc(patterns, func(p Pattern) bool { return p.Re == nil })
	for i := range patterns {
		patterns[i].Kind += strconv.Itoa(i)
	}
	for _, seed := range []string{"", "a", "AK" + "IA" + strings.ToUpper(fill(16)), "x\nSK" + strings.Repeat("0a1b", 8), "1234567890123456|" + fill(27), "kind: Secret\ndata:\n  a: " + fill(12), "datadog_key: " + fill(32), "\xff\x80hv" + "s." + fill(30), "curl -u a:" + fill(9) + "\r\n", "i-0123456789abcdef0", "DB_PASSWORD=" + fill(12), strings.Repeat("x", 600) + " token: " + fill(20)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		together := scanned(t, patterns, text)
		for _, p := range patterns {
			assert.Equal(t, scanned(t, []Pattern{p}, text)[p.Kind], together[p.Kind], p.Kind)
		}
	})
}

// filled reads a file of samples. {A9} in it becomes nine letters and digits, {h9} hexadecimal
// digits, {U9} upper case, and {l8} letters. {} is nothing, and keeps secret scanners from
// finding the sample.
func filled(t *testing.T, name string) string {
	t.Helper()
	return regexp.MustCompile(`\{(\w\d+)?\}`).ReplaceAllStringFunc(testkit.Content(t, name), func(blank string) string {
		if blank == "{}" {
			return ""
		}
		n, err := strconv.Atoi(blank[2 : len(blank)-1])
		assert.NoError(t, err)
		switch blank[1] {
		case 'h':
			return strings.Repeat("0a1b", n/4+1)[:n]
		case 'U':
			return strings.ToUpper(fill(n))
		case 'l':
			return strings.Repeat("aB", n/2)
		default:
			return fill(n)
		}
	})
}
