package cel

import (
	"errors"
	"fmt"
	"math"
)

// typ is a type's name in CEL; "" is none.
type typ string

// The scalar types.
const (
	intType    typ = "int"
	uintType   typ = "uint"
	doubleType typ = "double"
	boolType   typ = "bool"
)

func (t typ) isNumber() bool { return t == intType || t == uintType || t == doubleType }

func typeOf(v any) typ {
	switch v.(type) {
	case int64:
		return intType
	case uint64:
		return uintType
	case float64:
		return doubleType
	case bool:
		return boolType
	default:
		return "list"
	}
}

// resultOf is the type of an operation, or "" when there is no such operation.
func resultOf(op string, a, b typ) typ {
	if op == "in" {
		if b == "list("+a+")" {
			return boolType
		}
		return ""
	}
	if a != b {
		return ""
	}
	switch op {
	case "||", "&&":
		if a == boolType {
			return boolType
		}
	case "==", "!=":
		return boolType
	case "<", "<=", ">", ">=":
		if a.isNumber() || a == boolType {
			return boolType
		}
	case "%":
		if a == intType || a == uintType {
			return a
		}
	default:
		if a.isNumber() {
			return a
		}
	}
	return ""
}

var (
	errOverflow = errors.New("the number does not fit (overflow)")
	errDivision = errors.New("division by zero")
)

// node is a part of the tree; its type was checked.
type node interface {
	of() typ
	eval(map[string]int64) (any, error)
}

type literal struct{ value any }

func (l literal) of() typ                            { return typeOf(l.value) }
func (l literal) eval(map[string]int64) (any, error) { return l.value, nil }

type variable string

func (v variable) of() typ { return intType }
func (v variable) eval(vars map[string]int64) (any, error) {
	value, ok := vars[string(v)]
	if !ok {
		return nil, fmt.Errorf("%s has no value", string(v))
	}
	return value, nil
}

type unary struct {
	op      string
	operand node
}

func (u unary) of() typ { return u.operand.of() }
func (u unary) eval(vars map[string]int64) (any, error) {
	v, err := u.operand.eval(vars)
	if err != nil {
		return nil, err
	}
	switch x := v.(type) {
	case bool:
		return !x, nil
	case float64:
		return -x, nil
	default:
		return subtract(0, v.(int64))
	}
}

type conditional struct{ condition, yes, no node }

func (c conditional) of() typ { return c.yes.of() }
func (c conditional) eval(vars map[string]int64) (any, error) {
	v, err := c.condition.eval(vars)
	if err != nil {
		return nil, err
	}
	if v.(bool) {
		return c.yes.eval(vars)
	}
	return c.no.eval(vars)
}

type list struct{ items []node }

func (l list) of() typ { return "list(" + l.items[0].of() + ")" }
func (l list) eval(vars map[string]int64) (any, error) {
	values := make([]any, len(l.items))
	for i, item := range l.items {
		v, err := item.eval(vars)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

type size struct{ operand node }

func (s size) of() typ { return intType }
func (s size) eval(vars map[string]int64) (any, error) {
	v, err := s.operand.eval(vars)
	if err != nil {
		return nil, err
	}
	return int64(len(v.([]any))), nil
}

var conversions = map[string]struct {
	to      typ
	convert func(any) (any, error)
}{
	"int": {intType, toInt}, "uint": {uintType, toUint}, "double": {doubleType, toDouble},
}

type conversion struct {
	conversion struct {
		to      typ
		convert func(any) (any, error)
	}
	operand node
}

func (c conversion) of() typ { return c.conversion.to }
func (c conversion) eval(vars map[string]int64) (any, error) {
	v, err := c.operand.eval(vars)
	if err != nil {
		return nil, err
	}
	return c.conversion.convert(v)
}

type binary struct {
	op     string
	a, b   node
	result typ
}

func (o binary) of() typ { return o.result }

func (o binary) eval(vars map[string]int64) (any, error) {
	a, errA := o.a.eval(vars)
	if o.op == "||" || o.op == "&&" {
		return o.logic(a, errA, vars)
	}
	if errA != nil {
		return nil, errA
	}
	b, err := o.b.eval(vars)
	if err != nil {
		return nil, err
	}
	switch o.op {
	case "==":
		return equal(a, b), nil
	case "!=":
		return !equal(a, b), nil
	case "in":
		for _, item := range b.([]any) {
			if equal(a, item) {
				return true, nil
			}
		}
		return false, nil
	case "<", "<=", ">", ">=":
		return compare(o.op, a, b), nil
	}
	switch x := a.(type) {
	case int64:
		return intOperation(o.op, x, b.(int64))
	case uint64:
		return uintOperation(o.op, x, b.(uint64))
	default:
		return doubleOperation(o.op, a.(float64), b.(float64)), nil
	}
}

// logic lets the side that decides win over an error of the other.
func (o binary) logic(a any, errA error, vars map[string]int64) (any, error) {
	decides := o.op == "||"
	if errA == nil && a.(bool) == decides {
		return decides, nil
	}
	b, errB := o.b.eval(vars)
	switch {
	case errB == nil && b.(bool) == decides:
		return decides, nil
	case errA != nil:
		return nil, errA
	case errB != nil:
		return nil, errB
	default:
		return !decides, nil
	}
}

func equal(a, b any) bool {
	x, isList := a.([]any)
	if !isList {
		return a == b
	}
	y := b.([]any)
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if !equal(x[i], y[i]) {
			return false
		}
	}
	return true
}

func compare(op string, a, b any) bool {
	switch x := a.(type) {
	case int64:
		return ordered(op, x, b.(int64))
	case uint64:
		return ordered(op, x, b.(uint64))
	case float64:
		return ordered(op, x, b.(float64))
	default:
		return ordered(op, rank(a.(bool)), rank(b.(bool)))
	}
}

func ordered[T int64 | uint64 | float64](op string, a, b T) bool {
	switch op {
	case "<":
		return a < b
	case "<=":
		return a <= b
	case ">":
		return a > b
	default:
		return a >= b
	}
}

func rank(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func subtract(a, b int64) (any, error) {
	if d := a - b; (d < a) == (b > 0) {
		return d, nil
	}
	return nil, errOverflow
}

func intOperation(op string, a, b int64) (any, error) {
	switch op {
	case "+":
		if s := a + b; (s > a) == (b > 0) {
			return s, nil
		}
		return nil, errOverflow
	case "-":
		return subtract(a, b)
	case "*":
		if a == 0 || b == 0 {
			return int64(0), nil
		}
		if p := a * b; p/b == a && !(a == -1 && b == math.MinInt64) && !(b == -1 && a == math.MinInt64) {
			return p, nil
		}
		return nil, errOverflow
	}
	switch {
	case b == 0:
		return nil, errDivision
	case a == math.MinInt64 && b == -1:
		return nil, errOverflow
	case op == "/":
		return a / b, nil
	default:
		return a % b, nil
	}
}

func uintOperation(op string, a, b uint64) (any, error) {
	switch op {
	case "+":
		if s := a + b; s >= a {
			return s, nil
		}
		return nil, errOverflow
	case "-":
		if b <= a {
			return a - b, nil
		}
		return nil, errOverflow
	case "*":
		if p := a * b; a == 0 || p/a == b {
			return p, nil
		}
		return nil, errOverflow
	}
	switch {
	case b == 0:
		return nil, errDivision
	case op == "/":
		return a / b, nil
	default:
		return a % b, nil
	}
}

func doubleOperation(op string, a, b float64) any {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	default:
		return a / b
	}
}
