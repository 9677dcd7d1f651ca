package diagnose

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
)

// pattern is the compiled form of a rule.
type pattern struct{ lines, not, until expressions }

// patterns are those of Rules, in their order.
var patterns = sync.OnceValue(func() []pattern {
	var all []pattern
	for _, r := range Rules() {
		all = append(all, r.compile())
	}
	return all
})

func (r Rule) compile() pattern {
	return pattern{lines: compile(r.Lines...), not: compile(r.Not), until: compile(r.Until)}
}

// find is the expression that makes a line evidence, or nil.
func (p pattern) find(line string) *expression {
	if e := p.lines.find(line); e != nil && p.not.find(line) == nil {
		return e
	}
	return nil
}

// expression is a regular expression and a text that every match contains. Journals
// have millions of lines, and hardly any contains one of the texts. Searching for
// the texts costs a small part of what the expressions cost.
type expression struct {
	*regexp.Regexp
	literal string
}

type expressions []expression

// compile splits alternatives, because each has its own text. Empty texts match
// nothing.
func compile(texts ...string) expressions {
	var all expressions
	for _, text := range texts {
		if text == "" {
			continue
		}
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			panic(err) // the table is ours
		}
		alternatives := []*syntax.Regexp{tree}
		if tree.Op == syntax.OpAlternate {
			alternatives = tree.Sub
		}
		for _, one := range alternatives {
			all = append(all, expression{regexp.MustCompile(one.String()), required(one)})
		}
	}
	return all
}

// find is the first expression that matches a line, or nil.
func (all expressions) find(line string) *expression {
	for i := range all {
		if strings.Contains(line, all[i].literal) && all[i].MatchString(line) {
			return &all[i]
		}
	}
	return nil
}

// required is the longest text that every match of an expression contains.
func required(n *syntax.Regexp) string {
	switch n.Op {
	case syntax.OpLiteral:
		if n.Flags&syntax.FoldCase == 0 {
			return string(n.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(n.Sub[0])
	case syntax.OpConcat:
		longest := ""
		for _, part := range n.Sub {
			if text := required(part); len(text) > len(longest) {
				longest = text
			}
		}
		return longest
	}
	return ""
}
