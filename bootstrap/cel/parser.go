package cel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxDeep bounds how deep an expression may nest.
const maxDeep = 100

// parser builds the tree and checks types on the way: operands are known before
// their operator. The first error ends it.
type parser struct {
	lexer
	token     token
	variables []string
	used      []string
	deep      int
	err       error
}

func (p *parser) next() {
	p.token = p.scan()
	if p.token.kind == unsupported {
		p.fail(p.token, "%s is not supported here: the result is a number", p.token.text)
	}
}

func (p *parser) fail(at token, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("column %d: %s", at.at+1, fmt.Sprintf(format, args...))
		// Nothing is left to parse.
		p.lexer.at, p.token = len(p.lexer.text), token{end, "", len(p.lexer.text)}
	}
}

// is takes the token when it is one of the symbols.
func (p *parser) is(symbols ...string) (token, bool) {
	t := p.token
	if (t.kind == symbol || t.kind == identifier && t.text == "in") && slices.Contains(symbols, t.text) {
		p.next()
		return t, true
	}
	return t, false
}

func (p *parser) want(s string) {
	if t, ok := p.is(s); !ok {
		p.fail(t, "%q is missing before %s", s, t)
	}
}

func (p *parser) expression() node {
	p.deep++
	defer func() { p.deep-- }()
	if p.deep > maxDeep {
		p.fail(p.token, "it nests more than %d deep", maxDeep)
		return literal{int64(0)}
	}
	condition := p.binary(0)
	t, ok := p.is("?")
	if !ok {
		return condition
	}
	yes := p.binary(0)
	p.want(":")
	no := p.expression()
	if p.err == nil && (condition.of() != boolType || yes.of() != no.of()) {
		p.fail(t, "%s ? %s : %s: the condition must be a bool and both results of one type", condition.of(), yes.of(), no.of())
	}
	return conditional{condition, yes, no}
}

// levels are the binary operators from the weakest.
var levels = [][]string{{"||"}, {"&&"}, {"<", "<=", ">", ">=", "==", "!=", "in"}, {"+", "-"}, {"*", "/", "%"}}

func (p *parser) binary(level int) node {
	if level == len(levels) {
		return p.unary()
	}
	left := p.binary(level + 1)
	for {
		op, ok := p.is(levels[level]...)
		if !ok {
			return left
		}
		left = p.operation(op, left, p.binary(level+1))
	}
}

func (p *parser) operation(op token, a, b node) node {
	result := resultOf(op.text, a.of(), b.of())
	if p.err == nil && result == "" {
		p.fail(op, "there is no %s %s %s; int(), uint() and double() convert", a.of(), op.text, b.of())
	}
	return binary{op.text, a, b, result}
}

// unary takes any number of one sign. An even number cancels out.
func (p *parser) unary() node {
	first := p.token
	count := 0
	for first.text == "-" || first.text == "!" {
		if _, ok := p.is(first.text); !ok {
			break
		}
		count++
		if first.text == "-" && (p.token.kind == intLiteral || p.token.kind == doubleLiteral) {
			p.token.text = "-" + p.token.text // the sign belongs to the number: -9223372036854775808
			count--
			break
		}
	}
	operand := p.primary()
	if count == 0 {
		return operand
	}
	t := operand.of()
	if p.err == nil && (first.text == "!" && t != boolType || first.text == "-" && t != intType && t != doubleType) {
		p.fail(first, "there is no %s%s", first.text, t)
	}
	if count%2 == 0 {
		return operand
	}
	return unary{first.text, operand}
}

func (p *parser) primary() node {
	t := p.token
	var out node = literal{int64(0)}
	switch {
	case t.kind == intLiteral, t.kind == uintLiteral, t.kind == doubleLiteral:
		p.next()
		out = p.number(t)
	case t.kind == identifier:
		p.next()
		out = p.name(t)
	default:
		if _, ok := p.is("("); ok {
			out = p.expression()
			p.want(")")
			break
		}
		if _, ok := p.is("["); ok {
			out = p.list(t)
			break
		}
		p.fail(t, "a value is missing before %s", t)
	}
	if p.token.kind == symbol && strings.Contains(".[{", p.token.text) {
		p.fail(p.token, "members, indexes and messages are not supported here: the result is a number")
	}
	return out
}

func (p *parser) number(t token) node {
	var v any
	var err error
	switch t.kind {
	case intLiteral:
		v, err = strconv.ParseInt(decimalOrHex(t.text), 0, 64)
	case uintLiteral:
		v, err = strconv.ParseUint(decimalOrHex(t.text), 0, 64)
	default:
		v, err = strconv.ParseFloat(t.text, 64)
	}
	if err != nil {
		p.fail(t, "the number %s does not fit", t.text)
	}
	return literal{v}
}

// decimalOrHex takes leading zeros away, which Go would read as octal.
func decimalOrHex(text string) string {
	digits := strings.TrimPrefix(text, "-")
	if !strings.HasPrefix(digits, "0x") {
		digits = strings.TrimLeft(digits, "0")
	}
	if digits == "" {
		digits = "0"
	}
	return text[:len(text)-len(strings.TrimPrefix(text, "-"))] + digits
}

func (p *parser) name(t token) node {
	switch t.text {
	case "true", "false":
		return literal{t.text == "true"}
	}
	if _, call := p.is("("); call {
		return p.call(t)
	}
	if !slices.Contains(p.variables, t.text) {
		p.fail(t, "%s is not known; known are %s", t.text, strings.Join(p.variables, ", "))
	}
	p.used = append(p.used, t.text)
	return variable(t.text)
}

func (p *parser) call(t token) node {
	args := p.arguments(")")
	convert, known := conversions[t.text]
	isSize := t.text == "size" && len(args) == 1 && strings.HasPrefix(string(args[0].of()), "list")
	switch {
	case p.err != nil:
	case isSize:
		return size{args[0]}
	case !known:
		p.fail(t, "the function %s is not supported here; supported are double, int, size, uint", t.text)
	case len(args) != 1 || !args[0].of().isNumber():
		p.fail(t, "%s() takes one number", t.text)
	default:
		return conversion{convert, args[0]}
	}
	return literal{int64(0)}
}

func (p *parser) list(t token) node {
	items := p.arguments("]")
	if len(items) == 0 {
		p.fail(t, "an empty list is not supported here")
		return literal{int64(0)}
	}
	for _, i := range items {
		if p.err == nil && i.of() != items[0].of() {
			p.fail(t, "the list's elements must be of one type")
		}
	}
	return list{items}
}

func (p *parser) arguments(closing string) []node {
	var args []node
	for {
		if _, ok := p.is(closing); ok || p.err != nil {
			return args
		}
		args = append(args, p.expression())
		if _, ok := p.is(closing); ok {
			return args
		}
		p.want(",")
	}
}
