package userdata

import (
	"slices"
	"strings"
)

// powershellCommands takes a script apart into commands, as far as user data
// needs it: quotes, continued lines and comments. Open is the line of a quote
// that nothing closes; 0 for none.
func powershellCommands(script string) (all [][]word, open int) {
	var command []word
	var current *word
	line := 1
	put := func(ch byte) {
		if current == nil {
			current = &word{line: line}
		}
		current.bytes = append(current.bytes, ch)
	}
	endWord := func() {
		if current != nil {
			command = append(command, current.whole())
		}
		current = nil
	}
	endCommand := func() {
		endWord()
		if len(command) > 0 {
			all = append(all, command)
		}
		command = nil
	}
	for i := 0; i < len(script); i++ {
		ch := script[i]
		switch {
		case skipped(script[i:]) > 0:
			n := skipped(script[i:])
			if ch == '@' {
				if current == nil {
					current = &word{line: line}
				}
				current.dynamic = true // a here-string
			}
			line += strings.Count(script[i:i+n], "\n")
			i += n - 1
		case ch == '`' && i+1 < len(script):
			i++
			if script[i] == '\r' && i+1 < len(script) {
				i++
			}
			if script[i] == '\n' {
				line++
				endWord()
			} else {
				put(script[i])
				current.blank = len(current.bytes) == 1 && (script[i] == ' ' || script[i] == '\t') && strings.HasPrefix(strings.TrimLeft(script[i:], " \t\r"), "\n")
			}
		case ch == '\'' || ch == '"':
			if current == nil {
				current = &word{line: line, quoted: true}
			}
			from := line
			if i = powershellQuoted(script, i, current, &line); i >= len(script) {
				open = from
			}
		case ch == '\n' || ch == ';':
			endCommand()
			if ch == '\n' {
				line++
			}
		case ch == ' ' || ch == '\t' || ch == '\r':
			endWord()
		case ch == '#' && current == nil:
			for i+1 < len(script) && script[i+1] != '\n' {
				i++
			}
		case ch == '&' && current == nil:
			put(ch)
			endWord()
		default:
			put(ch)
			current.dynamic = current.dynamic || ch == '$' || ch == '('
		}
	}
	endCommand()
	return all, open
}

// skipped is the length of the here-string or the comment that a text begins
// with; 0 for neither.
func skipped(text string) int {
	if strings.HasPrefix(text, "<#") {
		if end := strings.Index(text, "#>"); end > 0 {
			return end + 2
		}
		return len(text)
	}
	if rest, found := strings.CutPrefix(strings.Replace(text[:min(len(text), 4)], "\r", "", 1), "@"); !found || len(rest) < 2 || rest[1] != '\n' || rest[0] != '\'' && rest[0] != '"' {
		return 0
	}
	if end := strings.Index(text, "\n"+text[1:2]+"@"); end > 0 {
		return end + 3
	}
	return len(text)
}

// powershellQuoted reads a text in quotes into a word and says where it ends.
func powershellQuoted(script string, i int, w *word, line *int) int {
	quote := script[i]
	for i++; i < len(script); i++ {
		ch := script[i]
		switch {
		case ch == quote && i+1 < len(script) && script[i+1] == quote:
			i++
		case ch == quote:
			return i
		case ch == '`' && quote == '"' && i+1 < len(script):
			i++
			ch = script[i]
		case ch == '$' && quote == '"':
			w.dynamic = true
		}
		if ch == '\n' {
			*line++
		}
		w.bytes = append(w.bytes, ch)
	}
	return i
}

// unquotedPath reports whether spaces split the script's path into words.
func unquotedPath(command []word) bool {
	i := 0
	if command[0].text == "&" || command[0].text == "." {
		i = 1
	}
	return i+1 < len(command) && !command[i].quoted && strings.Contains(command[i].text, `\`) && !namesScript(command[i]) &&
		!command[i+1].quoted && !strings.HasPrefix(command[i+1].text, "-") && slices.ContainsFunc(command[i+1:], namesScript)
}

// splatted returns the entries of the hash table that a call takes its parameters from,
// as @NAME; nil if the script does not define the table.
func splatted(before [][]word, call []word) []word {
	at := slices.IndexFunc(call, func(w word) bool { return strings.HasPrefix(w.text, "@") && len(w.text) > 1 })
	if at < 0 {
		return nil
	}
	var all []word
	open := false
	for _, command := range before {
		words := command
		if name, _, _ := strings.Cut(words[0].text, "="); strings.EqualFold(strings.TrimPrefix(name, "$"), call[at].text[1:]) && strings.HasPrefix(name, "$") {
			begin := slices.IndexFunc(words, func(w word) bool { return strings.Contains(w.text, "@{") })
			if open = begin >= 0; !open {
				continue
			}
			all = nil
			_, rest, _ := strings.Cut(words[begin].text, "@{")
			words = slices.Clone(words[begin:])
			words[0].text = rest
		}
		if !open {
			continue
		}
		all = append(all, entry(words)...)
		open = !strings.HasSuffix(words[len(words)-1].text, "}")
	}
	return all
}

// entry makes a parameter and its value of the words NAME = VALUE.
func entry(words []word) []word {
	var name, value word
	found := false
	for _, w := range words {
		before, after, equals := strings.Cut(w.text, "=")
		switch {
		case found && value.text == "":
			value = w
		case !found && equals && !w.quoted:
			found = true
			if before != "" {
				name = word{text: before, line: w.line}
			}
			value = word{text: after, line: w.line, dynamic: w.dynamic}
		case !found && w.text != "":
			name = w
		}
	}
	if !found {
		return nil
	}
	value.text = strings.TrimSuffix(value.text, "}") // also '…'}
	return []word{{text: "-" + name.text, line: name.line}, value}
}
