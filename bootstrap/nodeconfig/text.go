package nodeconfig

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckLine says what keeps a text from being one line of a file that another
// program reads.
func CheckLine(text string) error {
	switch {
	case strings.ContainsAny(text, "\r\n\x00"):
		return errors.New("must be on one line")
	case !utf8.ValidString(text):
		return errors.New("must be UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return errors.New("must not hold control characters")
	default:
		return nil
	}
}

// maxShown bounds what a message shows of a document, in bytes.
const maxShown = 500

// Printable makes one line of bounded length of what a document says.
func Printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "…"
}
