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
	s, same, all := NewSearch(t.Context()), 0, 0
	for _, one := range collection(t) {
		for line := range strings.Lines(one.log) {
			other := again(line, 4)
			kept := s.template(line, "")
			if all++; kept == s.template(other, "") {
				same++
				require.Equal(t, s.newTemplate(other, ""), kept, line)
			}
		}
	}
	assert.Greater(t, float64(same)/float64(all), 0.98)
	for n := range templatesMost { // and few are kept
		s.template(strings.Repeat("x", n%1000)+strings.Repeat("y", n/1000), "")
	}
	assert.LessOrEqual(t, len(s.templates), templatesMost)
}

// The numbers that a template replaces are in no expression.
func TestWhatVariesInALine(t *testing.T) {
	var texts []string
	for _, r := range Rules() {
		texts = append(texts, slices.Concat(r.Lines, r.Not, table().Moments[r.Until])...)
	}
	for _, one := range words().Targets {
		for _, e := range one.re {
			texts = append(texts, e.String())
		}
	}
	found := regexp.MustCompile(`[0-9]{5,}`).FindAllString(strings.Join(texts, "\n"), -1)
	slices.Sort(found)
	assert.ElementsMatch(t, fixed, slices.Compact(found))
	for line, want := range map[string]string{
		"": "", "a 1": "a 1", "x12345": "x00000", "12:34:56,7 1": "00:00:0000 1", "12:34": "12:34",
		"a[12] b[1]": "a[00] b[1]", "port 10250": "port 10250",
		"at 10.0.0.1:52334->127.0.0.1:53": "at 10.0.0.1:00000->127.0.0.1:53",
		"i-0abc12 1.30.4 5.123456s":       "i-000000 1.30.4 5.000000s",
	} {
		assert.Equal(t, want, string(appendConstant(nil, line)), line)
	}
}
