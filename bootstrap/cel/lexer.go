package cel

import (
	"fmt"
	"strings"
)

type kind int

// The kinds of tokens. A symbol is an operator or punctuation.
const (
	end kind = iota
	symbol
	identifier
	intLiteral
	uintLiteral
	doubleLiteral
	unsupported
)

type token struct {
	kind kind
	text string
	// at is the byte where it begins.
	at int
}

func (t token) String() string {
	if t.kind == end {
		return "the end"
	}
	return fmt.Sprintf("%q", t.text)
}

type lexer struct {
	text string
	at   int
}

// symbols lists the longer ones first.
var symbols = []string{"&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", "(", ")", "[", "]", ",", ".", "{", "}"}

func (l *lexer) scan() token {
	l.skip()
	start := l.at
	if start == len(l.text) {
		return token{end, "", start}
	}
	rest := l.text[start:]
	c := rest[0]
	switch {
	case isDigit(c), c == '.' && len(rest) > 1 && isDigit(rest[1]):
		return l.number()
	case isLetter(c):
		for l.at < len(l.text) && (isLetter(l.text[l.at]) || isDigit(l.text[l.at])) {
			l.at++
		}
		word := l.text[start:l.at]
		if l.at < len(l.text) && (l.text[l.at] == '"' || l.text[l.at] == '\'') {
			return token{unsupported, "text in quotes", start} // r"", b""
		}
		return token{identifier, word, start}
	case c == '"' || c == '\'':
		return token{unsupported, "text in quotes", start}
	}
	for _, s := range symbols {
		if strings.HasPrefix(rest, s) {
			l.at += len(s)
			return token{symbol, s, start}
		}
	}
	return token{unsupported, fmt.Sprintf("the character %q", []rune(rest)[0]), start}
}

// skip passes over white space and comments.
func (l *lexer) skip() {
	for l.at < len(l.text) {
		switch rest := l.text[l.at:]; {
		case strings.ContainsRune(" \t\r\n\f", rune(rest[0])):
			l.at++
		case strings.HasPrefix(rest, "//"):
			l.at += len(rest)
			if i := strings.IndexByte(rest, '\n'); i >= 0 {
				l.at += i - len(rest)
			}
		default:
			return
		}
	}
}

func (l *lexer) number() token {
	start := l.at
	if strings.HasPrefix(l.text[start:], "0x") {
		l.at += 2
		l.digits(isHex)
	} else {
		l.digits(isDigit)
		if l.fraction() {
			return token{doubleLiteral, l.text[start:l.at], start}
		}
	}
	if l.at < len(l.text) && (l.text[l.at] == 'u' || l.text[l.at] == 'U') {
		l.at++
		return token{uintLiteral, l.text[start : l.at-1], start}
	}
	return token{intLiteral, l.text[start:l.at], start}
}

// fraction takes a decimal fraction and an exponent, if there is any.
func (l *lexer) fraction() bool {
	before := l.at
	if l.at+1 < len(l.text) && l.text[l.at] == '.' && isDigit(l.text[l.at+1]) {
		l.at++
		l.digits(isDigit)
	}
	if l.at < len(l.text) && (l.text[l.at] == 'e' || l.text[l.at] == 'E') {
		mark := l.at
		l.at++
		if l.at < len(l.text) && (l.text[l.at] == '+' || l.text[l.at] == '-') {
			l.at++
		}
		if digits := l.at; !l.digits(isDigit) || l.at == digits {
			l.at = mark
		}
	}
	return l.at > before
}

func (l *lexer) digits(is func(byte) bool) bool {
	start := l.at
	for l.at < len(l.text) && is(l.text[l.at]) {
		l.at++
	}
	return l.at > start
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }
