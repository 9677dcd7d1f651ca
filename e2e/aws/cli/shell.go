// Package cli is test code: it reads commands of the AWS CLI as people would run
// them and says what is wrong with them, by the SDK's own operations and shapes.
// What it has no reading for is an error.
package cli

import (
	"fmt"
	"strings"
)

// substituted stands for what a shell puts in.
const substituted = "substituted"

// split takes a line for a shell apart into commands and their words, those of
// $( ) first.
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
				return nil, fmt.Errorf("a quote is not closed: %s", rest)
			}
			word.WriteString(rest[1 : 1+end])
			begun = true
			i += 1 + end
		case strings.HasPrefix(rest, "$("):
			end := strings.IndexByte(rest, ')')
			if end < 0 {
				return nil, fmt.Errorf("$( is not closed: %s", rest)
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
			return nil, fmt.Errorf("a shell reads more in %q than is written: %s", ch, line)
		default:
			word.WriteByte(ch)
			begun = true
		}
	}
	endCommand()
	return all, nil
}
