package diagnose

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a template says of a line is what the line says itself.
func TestALineSaysWhatItsTemplateSays(t *testing.T) {
	type says struct {
		hints
		hits                         []hit
		done, cause                  int
		known, bad, calm, noFact     bool
		ends, follows, clock, unlike bool
		by, level, kind              string
	}
	said := func(x *template, line string) says {
		return says{x.hints, x.hits, x.done, x.causeOf(), x.known, x.looksBad(), x.calm(), x.excused(), x.ends(), x.follows(),
			hasClock(line), x.aside(), x.by(), x.levelOf(), x.kindOf()}
	}
	s, same, all := NewSearch(t.Context()), 0, 0
	for _, one := range collection(t) {
		for line := range strings.Lines(one.log) {
			line = strings.TrimSuffix(line, "\n")
			other := again(line, 4)
			kept := s.template(line, "")
			if all++; kept == s.template(other, "") {
				same++
				clear(s.templates)
				require.Equal(t, said(s.template(other, ""), other), said(kept, line), line)
			}
		}
	}
	assert.Greater(t, float64(same)/float64(all), 0.99)
}

// The texts that a template replaces are in no expression.
func TestLongNumbersOfExpressionsAreFixed(t *testing.T) {
	var texts []string
	for _, r := range Rules() {
		texts = append(texts, append(r.Lines, r.Not, r.Until)...)
	}
	for _, one := range targets() {
		for _, e := range one.re {
			texts = append(texts, e.String())
		}
	}
	found := regexp.MustCompile(`[0-9]{5,}`).FindAllString(strings.Join(texts, "\n"), -1)
	slices.Sort(found)
	assert.ElementsMatch(t, fixed, slices.Compact(found))
}

func TestWhatVariesInALine(t *testing.T) {
	for line, want := range map[string]string{
		"": "", "a 1": "a 1", "x12345": "x00000", "12:34:56,7 1": "00:00:00,0 1", "systemd[1]: x": "systemd[1]: x",
		"E1120 20:11:04.100000    1790 kubelet.go:3010] x":       "E1120 00:00:00.000000    0000 kubelet.go:3010] x",
		"[  306.325154] a[640]: at 10.0.0.1:52334->127.0.0.1:53": "[  000.000000] a[000]: at 10.0.0.1:00000->127.0.0.1:53",
		`"ts":1795205461.78,"port":10250`:                        `"ts":0000000000.00,"port":10250`,
		"pod3f2a9c1e-12ab-bead-9d1e-0123456789ab":                "pod3f2a9c1e-12ab-bead-9d1e-000000000000",
		"pod 3f2a9c1e-12ab-bead-9d1e-0123456789ab.x":             "pod 00000000-0000-0000-0000-000000000000.x",
		"602401143452.dkr.ecr i-0abc12 1.30.4":                   "000000000000.dkr.ecr i-000000 1.30.4",
	} {
		assert.Equal(t, want, string(appendConstant(nil, line)), line)
	}
}

// What is kept of a long log is bounded.
func TestFewTemplatesAreKept(t *testing.T) {
	s := NewSearch(t.Context())
	for n := range templatesMost + 10 {
		s.template(strings.Repeat("x", n%1000)+strings.Repeat("y", n/1000), "")
	}
	assert.Len(t, s.templates, 10)
	s.template(strings.Repeat("x", templateMost), "")
	assert.Len(t, s.templates, 10)
}
