package diagnose

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// pattern is the compiled form of a rule. Most rules end with the same lines.
type pattern struct{ lines, not, ends expressions }

// patterns are those of Rules, in their order.
var patterns = sync.OnceValue(func() (all []pattern) {
	ends := map[string]expressions{}
	for _, r := range Rules() {
		if ends[r.Until] == nil {
			ends[r.Until] = compile(table().Moments[r.Until]...)
		}
		all = append(all, pattern{compile(r.Lines...), compile(r.Not...), ends[r.Until]})
	}
	return all
})

// expression is a regular expression and texts: every match contains one of them.
// Journals have millions of lines, and hardly any contains one of the texts.
// Searching for the texts costs a small part of what the expressions cost.
type expression struct {
	// re is compiled when the first line has the texts: String takes longer than all else.
	re       func() *regexp.Regexp
	literals []string
	// others are more such lists: a match contains a text of each.
	others [][]string
}

// match says whether a line matches.
func (e *expression) match(line string) bool { return hasOne(line, e.literals) && e.MatchString(line) }

// MatchString says whether a line matches that contains one of the literals.
func (e *expression) MatchString(line string) bool {
	for _, texts := range e.others {
		if !hasOne(line, texts) {
			return false
		}
	}
	return e.re().MatchString(line)
}

func hasOne(line string, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) })
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
			e := expression{literals: required(one)}
			e.re = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(one.String()) })
			if one.Op == syntax.OpConcat {
				for _, part := range one.Sub {
					if texts := required(part); shortest(texts) > 1 && !slices.Equal(texts, e.literals) {
						e.others = append(e.others, texts)
					}
				}
			}
			all = append(all, e)
		}
	}
	return all
}

// once compiles an expression at its first use.
var once = rule.Expression

// find is the first expression that matches a line, or nil.
func (all expressions) find(line string) *expression {
	for i := range all {
		if all[i].match(line) {
			return &all[i]
		}
	}
	return nil
}

// texts are the texts of all expressions.
func (all expressions) texts() (texts []string) {
	for _, e := range all {
		texts = append(texts, e.literals...)
	}
	return texts
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

// candidate is an expression of a rule.
type candidate struct {
	// rule is a place in Rules, or -1. Then the expression is of this Until.
	rule  int
	until string
	*expression
}

// hints are what the texts in a line say about the line.
type hints struct {
	class Class // of the last phrase
	at    int   // where the phrase ends
	word  bool  // the line has a word for an error
	sign  bool  // the line may be that of a node that joined
	end   bool  // the line may be the end of a service
}

// index finds the candidates that may match a line, in one pass over the line.
// Searching for the text of each costs a multiple.
type index struct {
	list []candidate
	// texts are the texts of the candidates by their first four bytes, and begins are
	// hashes of these bytes.
	texts  map[uint32][]begin
	begins [1 << 16]bool
}

// begin is a text of a candidate, a phrase of a class, or a word for an error.
type begin struct {
	text  string
	at    int // in the list, or -1
	class Class
	hints hints
}

// candidates is the index of all rules, in their order, after that of Until.
var candidates = sync.OnceValue(func() *index {
	x := &index{texts: map[uint32][]begin{}}
	added := map[string]bool{"": true}
	for i, r := range Rules() {
		for _, e := range patterns()[i].ends {
			if !added[r.Until] {
				x.add(candidate{-1, r.Until, &e})
			}
		}
		added[r.Until] = true
	}
	for i, p := range patterns() {
		for _, e := range p.lines {
			x.add(candidate{i, "", &e})
		}
	}
	for class, texts := range words().Phrases {
		for _, text := range texts {
			x.begin(begin{text: text, at: -1, class: Class(class)})
		}
	}
	for _, text := range words().ErrorParts {
		x.begin(begin{text: text, at: -1, hints: hints{word: true}})
	}
	for _, text := range signs().texts() {
		x.begin(begin{text: text, at: -1, hints: hints{sign: true}})
	}
	for _, text := range ended().texts() {
		x.begin(begin{text: text, at: -1, hints: hints{end: true}})
	}
	return x
})

func (x *index) add(c candidate) {
	for _, text := range c.literals {
		x.begin(begin{text: text, at: len(x.list)})
	}
	x.list = append(x.list, c)
}

func (x *index) begin(b begin) {
	four := uint32(b.text[0])<<24 | uint32(b.text[1])<<16 | uint32(b.text[2])<<8 | uint32(b.text[3])
	x.texts[four] = append(x.texts[four], b)
	x.begins[hash(four)] = true
}

func hash(four uint32) uint16 { return uint16(four * 2654435761 >> 16) }

// read lists the places of the candidates whose text a line contains, in order, and what
// else the texts in it say. It reuses the memory of a list.
func (x *index) read(line string, places []int) ([]int, hints) {
	places = places[:0]
	var h hints
	var four uint32
	for i := range len(line) {
		if four = four<<8 | uint32(line[i]); i < 3 || !x.begins[hash(four)] {
			continue
		}
		for _, b := range x.texts[four] {
			switch {
			case !strings.HasPrefix(line[i-3:], b.text):
			case b.at >= 0:
				places = append(places, b.at)
			case b.class == "":
				h.word, h.sign, h.end = h.word || b.hints.word, h.sign || b.hints.sign, h.end || b.hints.end
			case b.class == Waits && h.class != "":
			case h.class == Waits || i-3+len(b.text) > h.at:
				h.class, h.at = b.class, i-3+len(b.text)
			}
		}
	}
	slices.Sort(places)
	return slices.Compact(places), h
}
