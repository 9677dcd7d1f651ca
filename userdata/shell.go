package userdata

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

type word struct {
	text string
	line int
	// dynamic says that the shell computes a part of the word: a variable or the
	// output of a command.
	dynamic bool
	// blank says that the word is nothing but an escaped space at the end of a
	// line.
	blank bool
	// quoted says that the word begins with a quote; only of PowerShell.
	quoted bool
	// bytes are the text while the word is read.
	bytes []byte
}

// whole is a word that was read to its end.
func (w *word) whole() word {
	return word{text: string(w.bytes), line: w.line, dynamic: w.dynamic, blank: w.blank, quoted: w.quoted}
}

type document struct {
	text string
	// before is the number of lines of the script before the text.
	before int
	// dynamic says that the shell computes a part of the text.
	dynamic bool
	// path is the file that the command writes the text to; empty if unknown.
	path string
	// more says that the command appends the text.
	more bool
}

// The bounds of a script: the parser recurses, and each level of parentheses
// takes some kilobytes of stack.
const (
	maxScript = 64 << 10 // bytes
	maxOpen   = 4000     // opening parentheses, braces and backquotes
	// maxValue bounds the value of a variable, and maxExpanded what all variables
	// of a script expand to, in bytes: values that hold one another double in each
	// line.
	maxValue    = 16 << 10
	maxExpanded = 1 << 20
)

// shellVariants are the languages that a script is parsed as, in this order. A
// script that only the second parses is worth a warning.
func shellVariants(program string) []syntax.LangVariant {
	switch program {
	case "bash":
		return []syntax.LangVariant{syntax.LangBash}
	case "", "sh", "dash", "ash", "busybox":
		return []syntax.LangVariant{syntax.LangPOSIX, syntax.LangBash}
	case "ksh", "mksh":
		return []syntax.LangVariant{syntax.LangMirBSDKorn}
	default:
		return nil
	}
}

// interpreter is the name of the program in the first line of a script, such as
// bash; empty for a script without #!.
func interpreter(script string) string {
	line, _, _ := strings.Cut(script, "\n")
	line, found := strings.CutPrefix(strings.TrimRight(line, "\r"), "#!")
	if !found {
		return ""
	}
	words := strings.Fields(line)
	if len(words) > 1 && path.Base(words[0]) == "env" {
		words = slices.DeleteFunc(words[1:], func(w string) bool { return w[0] == '-' || strings.Contains(w, "=") })
	}
	if len(words) == 0 {
		return ""
	}
	return path.Base(words[0])
}

// shellError is a mistake that keeps a shell from running a script.
type shellError struct {
	line int
	text string
}

func (e shellError) Error() string { return e.text }

// shell is a script that was parsed.
type shell struct {
	commands  [][]word
	documents []document
	// warnings are about a script that runs, but perhaps not as it is meant.
	warnings []shellError

	script string
	// values are variables that the script sets exactly once, to a literal text.
	// The value of all others is "".
	values map[string]string
	// exported lists the variables that commands get, and exportsAll says that the script
	// exports what it assigns.
	exported   []string
	exportsAll bool
	// expanded is how many bytes variables expanded to so far.
	expanded int
}

// readShell parses a script and returns its simple commands and its
// here-documents, in order. The program decides the language.
func readShell(script, program string) (*shell, error) {
	switch {
	case len(script) > maxScript:
		return nil, shellError{1, "the script has more than 64 KiB; download a part of the script from elsewhere"}
	case strings.Count(script, "(")+strings.Count(script, "{")+strings.Count(script, "`") > maxOpen:
		return nil, shellError{1, "the script has too many parentheses"}
	}
	s := &shell{script: script, values: map[string]string{}}
	file, first := parseShell(script, program)
	// Shells take all the rest for an unclosed document.
	if end := unclosed().FindStringSubmatch(fmt.Sprint(first)); end != nil {
		s.warnings = append(s.warnings, mistake(first))
		s.script = strings.TrimSuffix(script, "\n") + "\n" + end[1] + "\n"
		file, first = parseShell(s.script, program)
	}
	switch {
	case file == nil:
		return nil, mistake(first)
	case first != nil:
		m := mistake(first)
		m.text = "only bash knows this, and /bin/sh is another shell on some systems: " + m.text +
			"; begin the script with #!/bin/bash"
		s.warnings = append(s.warnings, m)
	}
	syntax.Walk(file, s.assignment)
	syntax.Walk(file, s.export)
	syntax.Walk(file, s.statement)
	return s, nil
}

var (
	unclosed = show.Regexp("unclosed here-document `(.*)`")
	tabs     = show.Regexp(`(?m)^\t+`)
)

// parseShell parses a script as the first of its languages that knows all of the
// script. The error is the first language's.
func parseShell(script, program string) (*syntax.File, error) {
	var first error
	for _, variant := range shellVariants(program) {
		file, err := syntax.NewParser(syntax.Variant(variant)).Parse(strings.NewReader(script), "")
		if err == nil {
			return file, first
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// mistake is an error of the parser with its line.
func mistake(err error) shellError {
	if p, ok := errors.AsType[syntax.ParseError](err); ok {
		return shellError{int(p.Pos.Line()), p.Text}
	}
	if l, ok := errors.AsType[syntax.LangError](err); ok {
		at := int(l.Pos.Line())
		l.Pos = syntax.Pos{}
		return shellError{at, strings.TrimLeft(strings.TrimPrefix(l.Error(), l.Pos.String()), ": ")}
	}
	return shellError{1, err.Error()}
}

// assignment notes a variable's value. The value of one that is removed is unknown.
func (s *shell) assignment(n syntax.Node) bool {
	if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 && call.Args[0].Lit() == "unset" {
		for _, w := range call.Args[1:] {
			s.values[w.Lit()] = ""
		}
	}
	a, ok := n.(*syntax.Assign)
	if !ok || a.Name == nil || a.Naked {
		return true
	}
	name := a.Name.Value
	_, twice := s.values[name]
	s.values[name] = ""
	if a.Value != nil && !a.Append && a.Index == nil && !twice {
		if w := s.word(a.Value); !w.dynamic && len(w.text) <= maxValue {
			s.values[name] = w.text
		}
	}
	return true
}

// export notes variables that commands get: by export, by declare -x, or by set -a
// before the assignment.
func (s *shell) export(n syntax.Node) bool {
	var assigned []*syntax.Assign
	exports := s.exportsAll
	switch n := n.(type) {
	case *syntax.CallExpr:
		s.allExport(n.Args)
		if len(n.Args) == 0 { // others set variables of one command
			assigned = n.Assigns
		}
	case *syntax.DeclClause:
		assigned, exports = n.Args, exports || n.Variant.Value == "export"
	}
	for _, a := range assigned {
		switch {
		case a.Name == nil && a.Value != nil: // an option of declare
			exports = exports || strings.HasPrefix(a.Value.Lit(), "-") && strings.Contains(a.Value.Lit(), "x")
		case a.Name != nil && exports:
			s.exported = append(s.exported, a.Name.Value)
		}
	}
	return true
}

var exportOption = show.Regexp(`^[-+][a-z]*a[a-z]*$`)

func (s *shell) allExport(command []*syntax.Word) {
	for i, w := range command {
		if i == 0 && w.Lit() != "set" {
			return
		}
		switch sign := command[max(0, i-1)].Lit(); {
		case w.Lit() == "allexport":
			s.exportsAll = strings.HasPrefix(sign, "-")
		case exportOption().MatchString(w.Lit()):
			s.exportsAll = strings.HasPrefix(w.Lit(), "-")
		}
	}
}

// statement collects a command and the here-documents of a statement.
func (s *shell) statement(n syntax.Node) bool {
	st, ok := n.(*syntax.Stmt)
	if !ok {
		return true
	}
	var command []word
	if call, ok := st.Cmd.(*syntax.CallExpr); ok {
		for _, w := range call.Args {
			command = append(command, s.word(w))
		}
		var variables []word
		for _, a := range call.Assigns {
			if a.Value != nil && a.Name != nil && len(command) > 0 {
				w := s.word(a.Value)
				w.text = a.Name.Value + "=" + w.text
				variables = append(variables, w)
			}
		}
		if len(command) > 0 {
			s.commands = append(s.commands, append(variables, command...))
		}
	}
	s.here(st, command)
	return true
}

// here collects the here-documents of a statement.
func (s *shell) here(st *syntax.Stmt, command []word) {
	to, more := "", false
	for _, r := range st.Redirs {
		if op := r.Op.String(); op == ">" || op == ">>" || op == ">|" {
			to, more = s.word(r.Word).text, op == ">>"
		}
	}
	tee := command
	if len(command) > 0 && command[0].text == "sudo" {
		tee = command[1:]
	}
	if len(tee) > 1 && path.Base(tee[0].text) == "tee" {
		to, more = tee[len(tee)-1].text, strings.HasPrefix(tee[1].text, "-")
	}
	for _, r := range st.Redirs {
		if r.Hdoc == nil {
			continue
		}
		from, end := r.Hdoc.Pos(), r.Hdoc.End()
		text := s.script[min(int(from.Offset()), len(s.script)):min(int(end.Offset()), len(s.script))]
		if r.Op == syntax.DashHdoc {
			text = tabs().ReplaceAllString(text, "") // at the begin of lines
		}
		if i := strings.LastIndex(text, "\n") + 1; text[i:] == s.word(r.Word).text {
			text = text[:i]
		}
		literal := slices.ContainsFunc(r.Word.Parts, func(p syntax.WordPart) bool {
			l, plain := p.(*syntax.Lit)
			return !plain || strings.Contains(l.Value, `\`)
		})
		s.documents = append(s.documents, document{
			text: text, before: int(from.Line()) - 1, path: to, more: more,
			dynamic: !literal && strings.ContainsAny(text, "$`"),
		})
	}
}

// word reads a word as the shell does before it expands variables.
func (s *shell) word(w *syntax.Word) word {
	read := word{line: int(w.Pos().Line())}
	for _, part := range w.Parts {
		s.part(&read, part, false)
	}
	whole := read.whole()
	end := min(int(w.End().Offset()), len(s.script))
	written := s.script[min(int(w.Pos().Offset()), end):end]
	whole.blank = strings.TrimLeft(whole.text, " \t") == "" && written == `\`+whole.text &&
		strings.HasPrefix(strings.TrimLeft(s.script[end:], " \t"), "\n")
	return whole
}

func (s *shell) part(w *word, part syntax.WordPart, quoted bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		w.bytes = append(w.bytes, unescape(p.Value, quoted)...)
	case *syntax.SglQuoted:
		w.bytes = append(w.bytes, p.Value...)
		w.dynamic = w.dynamic || p.Dollar && strings.Contains(p.Value, `\`)
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			s.part(w, inner, true)
		}
	default:
		value, known := s.value(part, quoted)
		w.dynamic = w.dynamic || !known
		w.bytes = append(w.bytes, value...)
	}
}

// value is the value of a variable, or what the script says there.
func (s *shell) value(part syntax.WordPart, quoted bool) (value string, known bool) {
	p, ok := part.(*syntax.ParamExp)
	if ok && p.Param != nil && p.Exp == nil && p.Index == nil && p.Slice == nil && p.Repl == nil &&
		!p.Excl && !p.Length && !p.Width {
		// Without quotes, the shell splits a value at its spaces.
		value = s.values[p.Param.Value]
		if value != "" && s.expanded+len(value) <= maxExpanded && (quoted || !strings.ContainsAny(value, " \t\n*?[")) {
			s.expanded += len(value)
			return value, true
		}
	}
	from, end := min(int(part.Pos().Offset()), len(s.script)), min(int(part.End().Offset()), len(s.script))
	return s.script[from:max(from, end)], false
}

// unescape removes the backslashes that a shell removes.
func unescape(text string, quoted bool) []byte {
	var out bytes.Buffer
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (!quoted || strings.IndexByte("\"\\$`\n", text[i+1]) >= 0) {
			i++
			if text[i] == '\n' {
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.Bytes()
}
