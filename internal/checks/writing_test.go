package checks

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/yaml"
)

// phrase is a banned wording, and what to write instead: a row of testdata/phrases.yaml.
type phrase struct {
	Words, Instead string
	pattern        *regexp.Regexp
}

var phrases = sync.OnceValue(func() (all []phrase) {
	text, err := os.ReadFile("testdata/phrases.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, &all)
	}
	if err != nil {
		panic(err) // no test of texts can run
	}
	for i, p := range all {
		all[i].pattern = regexp.MustCompile(`(?i)\b(?:` + p.Words + `)\b`)
	}
	return all
})

// longest is the maximum number of words in a sentence of a page or of help.
const longest = 30

// prose is a text: a paragraph, a comment or a message.
type prose struct {
	file string
	line int
	text string
	// sentences says whether to measure the sentences: in pages and help.
	sentences bool
}

// complaints lists the violations in a text, each with file and line.
func (p prose) complaints() []string {
	var all []string
	for _, banned := range phrases() {
		for _, at := range banned.pattern.FindAllStringIndex(p.text, -1) {
			all = append(all, fmt.Sprintf("%s:%d: %q: write %s", p.file, p.lineOf(at[0]), p.text[at[0]:at[1]], banned.Instead))
		}
	}
	if !p.sentences {
		return all
	}
	for _, at := range sentences(p.text) {
		if n := len(wordsOf(p.text[at[0]:at[1]])); n > longest {
			start := strings.Join(wordsOf(p.text[at[0]:at[1]])[:6], " ")
			all = append(all, fmt.Sprintf("%s:%d: %q …: %d words in one sentence, of %d", p.file, p.lineOf(at[0]), start, n, longest))
		}
	}
	return all
}

func (p prose) lineOf(offset int) int { return p.line + strings.Count(p.text[:offset], "\n") }

// sentenceEnd matches the end of a sentence and the first character of the next.
var sentenceEnd = regexp.MustCompile(`[.!?]["')*]*\s+(?:[\p{Lu}"'(*\x60\[-]|$)|\n\s*\n`)

func sentences(text string) [][2]int {
	var all [][2]int
	start := 0
	for _, end := range sentenceEnd.FindAllStringIndex(text, -1) {
		all = append(all, [2]int{start, end[0] + 1})
		start = end[0] + 1
	}
	return append(all, [2]int{start, len(text)})
}

// wordsOf returns the words with a letter or a digit, without quoted code.
func wordsOf(sentence string) []string {
	var all []string
	for word := range strings.FieldsSeq(sentence) {
		if strings.Trim(word, "[](){}.,;:") == quotedCode {
			continue
		}
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			all = append(all, word)
		}
	}
	return all
}

const quotedCode = "X"

var (
	// code matches inline code. Its content is not checked.
	code    = regexp.MustCompile("`[^`\n]+`")
	address = regexp.MustCompile(`\]\([^)\n]*\)`)
	// unit matches the start of a separate text: a list item, a table row, a
	// heading.
	unit = regexp.MustCompile(`^\s*(?:[-*] |\d+\. |#+ |\||>)`)
)

// ofPage returns the texts of a page, without code blocks.
func ofPage(name, text string) []prose {
	text = fence.ReplaceAllStringFunc(text, func(block string) string { return strings.Repeat("\n", strings.Count(block, "\n")) })
	text = address.ReplaceAllString(code.ReplaceAllString(text, quotedCode), "]")
	var all []prose
	begin := true
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "":
			begin = true
			continue
		case strings.HasPrefix(strings.TrimSpace(line), "|"):
			for cell := range strings.SplitSeq(line, "|") {
				all = append(all, prose{name, i + 1, cell, true})
			}
			begin = true
			continue
		case begin || unit.MatchString(line):
			all = append(all, prose{name, i + 1, line, true})
		default:
			all[len(all)-1].text += "\n" + line
		}
		begin = strings.HasPrefix(line, "#")
	}
	return all
}

// ofGo returns the comments and strings of a Go file. Strings of the command count
// as help.
func ofGo(s source) []prose {
	if s.isGenerated() {
		return nil // its sources are checked
	}
	var all []prose
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			all = append(all, prose{s.name, s.set.Position(c.Pos()).Line, c.Text, false})
		}
		all = append(all, prose{s.name, s.set.Position(group.Pos()).Line, strings.ReplaceAll(group.Text(), "\n", " "), false})
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				all = append(all, prose{s.name, s.set.Position(lit.Pos()).Line, text, strings.HasPrefix(s.name, "cmd/") && !s.isTest()})
			}
		}
		return true
	})
	return all
}

var comment = regexp.MustCompile(`(?m)(?:^|\s)#.*$`)

func ofComments(name, text string) []prose {
	var all []prose
	for i, line := range strings.Split(text, "\n") {
		if found := comment.FindString(line); found != "" {
			all = append(all, prose{name, i + 1, found, false})
		}
	}
	return all
}

// texts returns all texts of the repository. Folders named testdata are left out:
// their files quote other programs, or are made by checked code.
func texts(t *testing.T) []prose {
	t.Helper()
	var all []prose
	for _, s := range sources(t) {
		if s.name != "internal/checks/writing_test.go" { // the file quotes the banned wordings
			all = append(all, ofGo(s)...)
		}
	}
	for _, name := range tracked(t) {
		if strings.Contains(name, "testdata/") {
			continue
		}
		switch path.Ext(name) {
		case ".md", ".mdx":
			all = append(all, ofPage(name, read(t, name))...)
		case ".hcl", ".yaml", ".yml", ".sh", ".toml", ".service", ".conf", "":
			all = append(all, ofComments(name, read(t, name))...)
		}
	}
	return all
}

// Every text follows the rules in docs/design/writing.md that a program can check.
func TestTextsFollowTheWritingRules(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range texts(t) {
		for _, c := range p.complaints() {
			if !seen[c] {
				t.Error(c)
			}
			seen[c] = true
		}
	}
}

func TestWritingCheckerFindsViolations(t *testing.T) {
	many := strings.Repeat("word ", longest)
	tests := map[string]struct {
		texts []prose
		want  []string
	}{
		"a phrase over two lines": {
			ofPage("a.md", "# A\n\nPackages\nbesides and what\nis told.\n"),
			[]string{`a.md:4: "besides": write "also" or "additional"`, `a.md:5: "is told"`},
		},
		"code is not prose":     {ofPage("a.md", "Use `besides`.\n\n```sh\necho besides\n```\n"), nil},
		"a long sentence":       {ofPage("a.md", "Short.\n\n"+many+"more.\n"), []string{"a.md:3: \"word word word word word word\" …: 31 words"}},
		"a list is no sentence": {ofPage("a.md", "- "+many+"\n- "+many+"\n"), nil},
		"a cell is one":         {ofPage("a.md", "| "+many+" | "+many+"|\n"), nil},
		"a comment":             {ofComments("a.hcl", "x = 1 # the desk\n"), []string{`a.hcl:1: "desk"`}},
		"Go":                    {ofGo(parsed(t, "cmd/x.go", "package x\n\n// X stands\n// for Y.\nconst X = \"knows of\"\n")), []string{`cmd/x.go:3: "stands for"`, `cmd/x.go:5: "knows of"`}},
		"help of the command":   {ofGo(parsed(t, "cmd/x.go", "package x\n\nconst X = \""+many+"more\"\n")), []string{"cmd/x.go:3"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range test.texts {
				got = append(got, p.complaints()...)
			}
			if assert.Len(t, got, len(test.want), "%q", got) {
				for i, want := range test.want {
					assert.Contains(t, got[i], want)
				}
			}
		})
	}
}
