// Package cel evaluates the part of the Common Expression Language that
// calculations over numbers need: integers, unsigned integers, doubles and
// booleans; arithmetic, comparison, logic, the conditional, lists with `in`,
// size() and the conversions int(), uint() and double(). Inside that part it
// does what https://github.com/google/cel-spec says, type checks, overflow
// errors and the absorption of errors by || and && included; everything else of
// the language is an error that says so.
//
// It stands in for github.com/google/cel-go, which would make the program that
// a first boot reads from a cold disk 8.6 MB larger (2.7 MB compressed, July
// 2026): more than everything else of it together. testdata holds cel-go's own
// answers, which the tests compare with.
package cel

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Expression is one that was parsed and type-checked.
type Expression struct {
	source string
	root   node
	used   []string
}

// Uses says whether the expression names one of the variables.
func (e *Expression) Uses(variables ...string) bool {
	return slices.ContainsFunc(variables, func(v string) bool { return slices.Contains(e.used, v) })
}

// maxSource bounds an expression's length in bytes, and by that how deep its tree
// is: a + b + c nests without parentheses.
const maxSource = 4096

// Compile parses an expression and checks its types. Variables are integers.
func Compile(source string, variables ...string) (*Expression, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("compiling the expression: it has %d bytes, and %d are the most", len(source), maxSource)
	}
	p := parser{lexer: lexer{text: source}, variables: variables}
	p.next()
	root := p.expression()
	if p.err == nil && p.token.kind != end {
		p.fail(p.token, "%s does not belong here", p.token)
	}
	if p.err != nil {
		return nil, fmt.Errorf("compiling the expression %s: %w", shown(source), p.err)
	}
	return &Expression{source: source, root: root, used: p.used}, nil
}

// Int evaluates the expression and converts its result to an integer. Every
// variable that Compile was told of must have a value.
func (e *Expression) Int(variables map[string]int64) (int64, error) {
	v, err := e.Evaluate(variables)
	if err == nil {
		v, err = toInt(v)
	}
	if err != nil {
		return 0, fmt.Errorf("evaluating %s with %s: %w", shown(e.source), bindings(variables), err)
	}
	return v.(int64), nil
}

// shown is an expression, or the beginning of a long one, in quotes.
func shown(source string) string {
	const most = 200
	if len(source) > most {
		return fmt.Sprintf("%q…", source[:most])
	}
	return strconv.Quote(source)
}

// Evaluate returns the expression's value: int64, uint64, float64, bool or
// []any of these.
func (e *Expression) Evaluate(variables map[string]int64) (any, error) {
	return e.root.eval(variables)
}

func bindings(variables map[string]int64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		list = append(list, fmt.Sprintf("%s=%d", name, variables[name]))
	}
	return strings.Join(list, ", ")
}

// toInt converts as CEL's int() does: doubles lose their fraction.
func toInt(v any) (any, error) {
	switch x := v.(type) {
	case int64:
		return x, nil
	case uint64:
		if x > math.MaxInt64 {
			return nil, errOverflow
		}
		return int64(x), nil
	case float64:
		if math.IsNaN(x) || x <= math.MinInt64 || x >= math.MaxInt64 {
			return nil, errOverflow
		}
		return int64(x), nil
	default:
		return nil, fmt.Errorf("its result is of type %s, not a number", typeOf(v))
	}
}

func toUint(v any) (any, error) {
	switch x := v.(type) {
	case uint64:
		return x, nil
	case int64:
		if x < 0 {
			return nil, errOverflow
		}
		return uint64(x), nil
	default:
		f := v.(float64)
		if math.IsNaN(f) || f < 0 || f >= math.MaxUint64 {
			return nil, errOverflow
		}
		return uint64(f), nil
	}
}

func toDouble(v any) (any, error) {
	switch x := v.(type) {
	case int64:
		return float64(x), nil
	case uint64:
		return float64(x), nil
	default:
		return v, nil
	}
}
