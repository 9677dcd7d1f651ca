package show

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// plainWord matches words that a shell leaves as they are.
var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\w@%+=:,./-]+$`) })

// ShellWord is a text as one word of a shell command, in quotes if it needs them.
func ShellWord(text string) string {
	if plainWord().MatchString(text) {
		return text
	}
	return ShellQuote(text)
}

// ShellQuote is a text as one word of a shell command, in quotes.
func ShellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

var octal = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\\[0-3][0-7]{2}`) })

// Unescape replaces octal escapes such as \040, which the kernel's tables, fstab(5)
// and mtree(5) use for bytes in names.
func Unescape(name string) string {
	return octal().ReplaceAllStringFunc(name, func(code string) string {
		n, _ := strconv.ParseUint(code[1:], 8, 8) // the expression has only such numbers
		return string([]byte{byte(n)})
	})
}
