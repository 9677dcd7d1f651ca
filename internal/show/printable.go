package show

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable makes a text of several lines safe to print. It writes control
// characters, changes of direction, invisible characters and bytes that are not
// UTF-8 as Go escapes them: they control a terminal or mislead the reader. Names of
// files, errors and output of a machine may hold any of them.
func Printable(text string) string {
	if isPrintable(text) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case prints(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// Line is Printable for a text of one line.
func Line(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Printable(text))
}

func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !prints(r) })
}

func prints(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }

// JSON makes JSON safe to print without changing its meaning: characters
// that Printable escapes become JSON escapes. JSON itself demands escapes only for
// the control characters of ASCII.
func JSON(data []byte) []byte {
	return escaped(data, func(b *bytes.Buffer, r rune) {
		if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
			fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
			return
		}
		fmt.Fprintf(b, `\u%04x`, r)
	})
}

// XML is JSON for XML.
func XML(data []byte) []byte {
	return escaped(data, func(b *bytes.Buffer, r rune) { fmt.Fprintf(b, `&#x%X;`, r) })
}

// escaped replaces characters that do not print. Data is UTF-8, because encoders
// made it.
func escaped(data []byte, escape func(*bytes.Buffer, rune)) []byte {
	if utf8.Valid(data) && !bytes.ContainsFunc(data, func(r rune) bool { return !prints(r) }) {
		return data
	}
	var b bytes.Buffer
	for _, r := range string(data) {
		if prints(r) {
			b.WriteRune(r)
			continue
		}
		escape(&b, r)
	}
	return b.Bytes()
}

// Short is Line for text of any length: what is longer than most bytes is cut.
func Short(text string, most int) string {
	line := Line(text)
	if len(line) <= most {
		return line
	}
	return strings.ToValidUTF8(line[:most], "") + "…"
}

// Quote quotes a text, and cuts what is longer than most bytes.
func Quote(text string, most int) string {
	if len(text) <= most {
		return strconv.Quote(text)
	}
	return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "…"
}
