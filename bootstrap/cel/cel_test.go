package cel

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/cel.tsv
var answers string

var values = map[string]int64{"default_enis": 3, "ips_per_eni": 6, "max_pods": 17, "big": 1<<63 - 1, "zero": 0}

func names() []string { return []string{"default_enis", "ips_per_eni", "max_pods", "big", "zero"} }

// What cel-go answers, this package answers; what it cannot, it refuses.
func TestWhichVariablesAreUsed(t *testing.T) {
	e, err := Compile("a > 1 ? a : 2 * c", "a", "b", "c")
	require.NoError(t, err)
	assert.True(t, e.Uses("b", "c"))
	assert.False(t, e.Uses("b"))
}

func TestItAnswersAsTheReferenceDoes(t *testing.T) {
	refused := 0
	for line := range strings.Lines(answers) {
		text, want, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		require.True(t, ok, line)
		text = strings.ReplaceAll(text, `\n`, "\n")
		got := answer(text)
		if got == "compile" && want != "compile" {
			// cel-go makes lists of mixed types dynamic.
			_, err := Compile(text, names()...)
			assert.ErrorContains(t, err, "the list's elements must be of one type", text)
			refused++
			continue
		}
		assert.Equal(t, want, got, text)
	}
	assert.Less(t, refused, 300)
}

func answer(text string) string {
	e, err := Compile(text, names()...)
	if err != nil {
		return "compile"
	}
	v, err := e.Evaluate(values)
	if err != nil {
		return "error"
	}
	if i, err := e.Int(values); err == nil {
		return fmt.Sprintf("%v %v", v, i)
	}
	return fmt.Sprintf("%v none", v)
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"max_pods +":       `compiling the expression "max_pods +": column 11: a value is missing before the end`,
		"max_pods * 2.0":   `compiling the expression "max_pods * 2.0": column 10: there is no int * double; int(), uint() and double() convert`,
		"pods + 1":         `compiling the expression "pods + 1": column 1: pods is not known; known are default_enis, ips_per_eni, max_pods, big, zero`,
		"math.least(1, 2)": `compiling the expression "math.least(1, 2)": column 1: math is not known; known are default_enis, ips_per_eni, max_pods, big, zero`,
		"min(1, 2)":        `compiling the expression "min(1, 2)": column 1: the function min is not supported here; supported are double, int, size, uint`,
		`"a" + "b"`:        `compiling the expression "\"a\" + \"b\"": column 1: text in quotes is not supported here: the result is a number`,
		"max_pods.x":       `compiling the expression "max_pods.x": column 9: members, indexes and messages are not supported here: the result is a number`,
		"1 ? 2 : 3":        `compiling the expression "1 ? 2 : 3": column 3: int ? int : int: the condition must be a bool and both results of one type`,
		strings.Repeat("(", 101) + "1" + strings.Repeat(")", 101): `it nests more than 100 deep`,
	} {
		_, err := Compile(text, names()...)
		assert.ErrorContains(t, err, want)
	}
	e, err := Compile("max_pods / zero", names()...)
	require.NoError(t, err)
	_, err = e.Int(map[string]int64{"max_pods": 17, "zero": 0})
	assert.EqualError(t, err, `evaluating "max_pods / zero" with max_pods=17, zero=0: division by zero`)
	e, err = Compile("max_pods > 3", names()...)
	require.NoError(t, err)
	_, err = e.Int(values)
	assert.ErrorContains(t, err, "its result is of type bool, not a number")
}

// What nests without parentheses is bounded by its length: neither compiling nor
// evaluating runs out of stack.
func TestLongExpressionsAreRefused(t *testing.T) {
	for name, text := range long() {
		_, err := Compile(text, names()...)
		assert.EqualError(t, err, fmt.Sprintf("compiling the expression: it has %d bytes, and 4096 are the most", len(text)), name)
	}
	e, err := Compile("1"+strings.Repeat("+1", 2047), names()...)
	require.NoError(t, err)
	sum, err := e.Int(values)
	require.NoError(t, err)
	assert.Equal(t, int64(2048), sum)
	_, err = Compile(strings.Repeat("-", 4000)+"!", names()...)
	require.ErrorContains(t, err, "is missing before")
	assert.Less(t, len(err.Error()), 400)
}

func long() map[string]string {
	const n = 4 << 20
	return map[string]string{
		"sum": "1" + strings.Repeat("+1", n), "logic": "true" + strings.Repeat("&&true", n), "conditions": strings.Repeat("true?1:", n) + "1",
		"parentheses": strings.Repeat("(", n), "lists": strings.Repeat("[", n), "signs": strings.Repeat("-", n) + "1", "calls": strings.Repeat("int(", n),
	}
}

func FuzzCompile(f *testing.F) {
	for line := range strings.Lines(answers) {
		text, _, _ := strings.Cut(line, "\t")
		f.Add(text)
	}
	for _, text := range long() {
		f.Add(text[:5000])
		f.Add(text[:4000] + "1")
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Compile(text, names()...)
		if err != nil {
			return
		}
		first, errA := e.Int(values)
		second, errB := e.Int(values)
		assert.Equal(t, first, second)
		assert.Equal(t, errA == nil, errB == nil)
	})
}
