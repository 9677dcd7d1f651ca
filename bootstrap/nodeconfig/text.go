package nodeconfig

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// CheckLine returns an error if a text cannot be one line of a file of another program.
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

// maxShown is the maximum length of quoted text in messages, in bytes.
const maxShown = 500

// Printable returns text as one printable line of limited length.
func Printable(text string) string { return show.Short(text, maxShown) }
