package diagnose

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
)

// pattern is the compiled form of a rule.
type pattern struct {
	lines, not expressions
	until      int // a place in untils, or -1
}

// untils are the expressions of Until, each once: most rules end with the same lines.
var untils = sync.OnceValue(func() (all []expressions) {
	for _, text := range untilTexts() {
		all = append(all, compile(text))
	}
	return all
})

func untilTexts() (texts []string) {
	for _, r := range Rules() {
		if r.Until != "" && !slices.Contains(texts, r.Until) {
			texts = append(texts, r.Until)
		}
	}
	return texts
}

// patterns are those of Rules, in their order.
var patterns = sync.OnceValue(func() []pattern {
	var all []pattern
	ends := untilTexts()
	for _, r := range Rules() {
		all = append(all, pattern{lines: compile(r.Lines...), not: compile(r.Not), until: slices.Index(ends, r.Until)})
	}
	return all
})

// find is the expression that makes a line evidence, or nil.
func (p pattern) find(line string) *expression {
	if e := p.lines.find(line); e != nil && p.not.find(line) == nil {
		return e
	}
	return nil
}

// expression is a regular expression and texts: every match contains one of them.
// Journals have millions of lines, and hardly any contains one of the texts.
// Searching for the texts costs a small part of what the expressions cost.
type expression struct {
	*regexp.Regexp
	literals []string
}

// match says whether a line matches.
func (e *expression) match(line string) bool {
	for _, text := range e.literals {
		if strings.Contains(line, text) {
			return e.MatchString(line)
		}
	}
	return false
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
		if all[i].match(line) {
			return &all[i]
		}
	}
	return nil
}

// required are texts: every match of an expression contains one of them. They are
// the longest such texts.
func required(n *syntax.Regexp) []string {
	switch n.Op {
	case syntax.OpLiteral:
		if n.Flags&syntax.FoldCase == 0 {
			return []string{string(n.Rune)}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(n.Sub[0])
	case syntax.OpConcat:
		best := []string{""}
		for _, part := range n.Sub {
			if texts := required(part); shortest(texts) > shortest(best) {
				best = texts
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, part := range n.Sub {
			all = append(all, required(part)...)
		}
		return all
	}
	return []string{""}
}

func shortest(texts []string) int {
	least := len(texts[0])
	for _, text := range texts {
		least = min(least, len(text))
	}
	return least
}
