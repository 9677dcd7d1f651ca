package nodeconfig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func podValues() map[string]int64 {
	return map[string]int64{DefaultENIs: 3, IPsPerENI: 6, MaxPods: 17, VCPUs: 0, PhysicalMemoryMiB: 1<<63 - 1}
}

func compile(t *testing.T, source string) *MaxPodsProgram {
	t.Helper()
	p, err := Kubelet{MaxPodsExpression: source}.CompileMaxPods()
	require.NoError(t, err, source)
	return p
}

func TestExpressionsThatNeedTheSize(t *testing.T) {
	for source, want := range map[string]bool{
		"": false, "max_pods": false, "vcpu": false, "'vcpus' == 'vcpus' ? 1 : 2": false,
		"max_pods > 1 ? max_pods : 2 * vcpus": true, "[1].map(n, n * physical_memory_mib)[0]": true,
	} {
		assert.Equal(t, want, Kubelet{MaxPodsExpression: source}.AsksForSize(), source)
	}
}

// Expressions with a different result in languages whose integers wrap or whose logical
// operators are evaluated from the left only.
func TestArithmeticOfExpressions(t *testing.T) {
	for source, want := range map[string]int64{
		"1 + 2 * 3 - 4 / 2 % 3": 5, "24 / 4 / 2": 3, "-7 / 2": -3, "-7 % 2": -1, "7 % -2": 1, "5--5": 10, "---5": -5, "007": 7, "0x1F": 31,
		"-9223372036854775808": -1 << 63, "double(default_enis) * 2.5": 7, "-2.9": -2, "uint(5) / 2u": 2, "int(9223372036854774784.0)": 9223372036854774784,
		"1 / vcpus == 1 || true ? 1 : 2": 1, "1 / vcpus == 1 && false ? 1 : 2": 2, "true ? 1 : 1 / vcpus": 1, "false ? 1 : true ? 2 : 3": 2,
		"max_pods in [17, 18] ? 1 : 2": 1, "[1] in [[1], [2]] ? 1 : 2": 1, "size([1, 2, 3])": 3,
	} {
		got, err := compile(t, source).Pods(podValues())
		require.NoError(t, err, source)
		assert.Equal(t, want, got, source)
	}
	for source, want := range map[string]string{
		"max_pods / vcpus":                "line 1, column 10: division by zero",
		"max_pods % vcpus":                "line 1, column 10: modulus by zero",
		"1 +\n physical_memory_mib":       "line 1, column 3: integer overflow",
		"1u - 2u":                         "line 1, column 4: unsigned integer overflow",
		"-9223372036854775808 / -1":       "line 1, column 22: integer overflow",
		"1 / vcpus == 1 || false ? 1 : 2": "division by zero",
		"1.0 / 0.0":                       "converting its result: integer overflow",
		"max_pods > 3":                    "converting its result: type conversion error from 'bool' to 'int'",
		"'many'":                          "converting its result: type conversion error from 'string' to 'int'",
		"[17]":                            "converting its result: type conversion error from 'list(dyn)' to 'int'",
		"{'a': 1}['" + long(1000) + "']":  "no such key: aaa",
		"[1, 2].map(n, n / vcpus).size()": "line 1, column 11: division by zero",
		"timestamp('never').getSeconds()": "line 1, column 10: ",
	} {
		_, err := compile(t, source).Pods(podValues())
		require.ErrorContains(t, err, want, source)
		assert.Less(t, len(err.Error()), 1000)
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func TestExpressionErrors(t *testing.T) {
	for source, want := range map[string]string{
		"pods + 1":            `compiling the expression "pods + 1": line 1, column 1: undeclared reference to 'pods'; the variables are default_enis, ips_per_eni, max_pods, vcpus, physical_memory_mib`,
		"max_pods * 2.0":      `compiling the expression "max_pods * 2.0": line 1, column 10: found no matching overload for '_*_' applied to '(int, double)'`,
		"max_pods\n+ '1'":     `compiling the expression "max_pods\n+ '1'": line 2, column 1: found no matching overload for '_+_' applied to '(int, string)'`,
		"math.least(1, 2)":    `line 1, column 1: undeclared reference to 'math'`,
		"9223372036854775808": `line 1, column 1: invalid int literal`,
		"max_pods +":          `line 1, column 11: Syntax error: `,
		"1 ? 2 : 3":           `line 1, column 3: found no matching overload for '_?_:_' applied to '(int, int, int)'`,
		long(1000) + " + 1":   `…: line 1, column 1: undeclared reference to 'aaa`,
		long(4097):            `compiling the expression: the expression has 4097 bytes, but at most 4096 are allowed`,
	} {
		_, err := Kubelet{MaxPodsExpression: source}.CompileMaxPods()
		require.ErrorContains(t, err, want)
		assert.Less(t, len(err.Error()), 1000)
		assert.NotContains(t, err.Error(), "\n")
	}
}

// longExpressions returns expressions of about n bytes that nest in every way of the
// grammar.
func longExpressions(n int) map[string]string {
	return map[string]string{
		"sum": "1" + strings.Repeat("+1", n/2), "logic": "true" + strings.Repeat("&&true", n/6), "conditions": strings.Repeat("true?1:", n/7) + "1",
		"parentheses": strings.Repeat("(", n), "lists": strings.Repeat("[", n), "signs": strings.Repeat("-", n) + "1", "calls": strings.Repeat("int(", n/4),
		"members": "max_pods" + strings.Repeat(".a", n/2), "indexes": strings.Repeat("[1", n/4) + strings.Repeat("][0]", n/8), "maps": strings.Repeat("{1:", n/3),
		"exclamations": strings.Repeat("!", n) + "true", "macros": strings.Repeat("[1].map(n, ", n/11),
	}
}

// Compiling and evaluating need limited stack, memory and time.
func TestExpressionsAreBounded(t *testing.T) {
	for name, source := range longExpressions(4000) {
		p, err := Kubelet{MaxPodsExpression: source}.CompileMaxPods()
		if err == nil {
			_, err = p.Pods(podValues())
		}
		if err != nil {
			assert.Less(t, len(err.Error()), 1000, name)
		}
	}
	thousand := "[" + strings.Repeat("1,", 999) + "1]"
	for source, want := range map[string]string{
		thousand + ".all(a, " + "[1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, a+b+c+d > 0)))) ? 1 : 2": "actual cost limit exceeded",
		"['aaaaaaaaaaaaaaaa']" + strings.Repeat(".map(s, s+s)", 60) + "[0].size()":                                                         "actual cost limit exceeded",
	} {
		_, err := compile(t, source).Pods(podValues())
		assert.ErrorContains(t, err, want)
	}
}

// A comparison of deeply nested lists has no cost in cel-go and cannot be interrupted.
func TestEvaluationsEnd(t *testing.T) {
	p := compile(t, "[[1]]"+strings.Repeat(".map(l, [l, l])", 22)+".all(l, l == l) ? 1 : 2")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("no result in time"))
	defer cancel()
	_, err := p.pods(ctx, podValues())
	assert.EqualError(t, err, "no result in time")
}

func FuzzMaxPodsExpression(f *testing.F) {
	for _, source := range longExpressions(300) {
		f.Add(source)
	}
	for _, source := range []string{
		"((default_enis - 1) * (ips_per_eni - 1)) + 2", "max_pods < 30 ? max_pods : 30", "[3, 6].exists(n, n == default_enis) ? 1 : 2",
		"{'a': 1}['a']", "timestamp('2026-01-01T00:00:00Z').getSeconds()", "'a'.matches('(a+)+$') ? 1 : 2", "b'\\xff'", "has({}.a)", "\"\\u00e9\" + 1", "1e999",
	} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		p, err := Kubelet{MaxPodsExpression: source}.CompileMaxPods()
		if err == nil && p != nil {
			_, err = p.Pods(podValues())
		}
		if err != nil {
			assert.Less(t, len(err.Error()), 2000)
			assert.NotContains(t, err.Error(), "\n", fmt.Sprintf("%q", source))
		}
	})
}
