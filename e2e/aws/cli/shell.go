// Package cli is test code. It checks commands of the AWS CLI in documentation
// and scripts against the SDK's operations and types. A command that the
// package cannot read is an error.
package cli

import (
	"fmt"
	"strings"
)

// substituted replaces text that a shell would insert.
const substituted = "substituted"

// split splits a shell line into commands and their words. The commands inside
// $( ) come first.
func split(line string) ([][]string, error) {
	var all [][]string
	var words []string
	var word strings.Builder
	begun := false
	endWord := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			all = append(all, words)
		}
		words = nil
	}
	for i := 0; i < len(line); i++ {
		rest := line[i:]
		switch ch := line[i]; {
		case ch == '\'':
			end := strings.IndexByte(rest[1:], '\'')
			if end < 0 {
				return nil, fmt.Errorf("unclosed quote: %s", rest)
			}
			word.WriteString(rest[1 : 1+end])
			begun = true
			i += 1 + end
		case strings.HasPrefix(rest, "$("):
			end := strings.IndexByte(rest, ')')
			if end < 0 {
				return nil, fmt.Errorf("unclosed $(: %s", rest)
			}
			inner, err := split(rest[2:end])
			if err != nil {
				return nil, err
			}
			all = append(all, inner...)
			word.WriteString(substituted)
			begun = true
			i += end
		case strings.HasPrefix(rest, `\'`):
			word.WriteByte('\'')
			begun = true
			i++
		case ch == ' ':
			endWord()
		case ch == '|' || ch == ';':
			endCommand()
		case strings.HasPrefix(rest, "&&"):
			endCommand()
			i++
		case strings.IndexByte("$\"`\\<>&()*?#~…", ch) >= 0:
			return nil, fmt.Errorf("a shell expands %q: %s", ch, line)
		default:
			word.WriteByte(ch)
			begun = true
		}
	}
	endCommand()
	return all, nil
}
