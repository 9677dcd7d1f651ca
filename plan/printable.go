package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable is a text of several lines that is safe to print: whatever steers
// a terminal or misleads the eye (control characters, also those beyond ASCII,
// changes of direction, invisible characters, bytes that are not UTF-8) is
// written as Go escapes it. Names of files, errors and output of a machine may
// hold any of it.
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

// PrintableLine is Printable for a text that must not break its line.
func PrintableLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Printable(text))
}

func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !prints(r) })
}

func prints(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }

// PrintableJSON is JSON that means the same and is safe to print: what
// Printable escapes is written as a JSON escape. JSON itself escapes only the control
// characters of ASCII.
func PrintableJSON(data []byte) []byte {
	return escaped(data, func(b *bytes.Buffer, r rune) {
		if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
			fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
			return
		}
		fmt.Fprintf(b, `\u%04x`, r)
	})
}

// PrintableXML is the same for XML.
func PrintableXML(data []byte) []byte {
	return escaped(data, func(b *bytes.Buffer, r rune) { fmt.Fprintf(b, `&#x%X;`, r) })
}

// escaped replaces what does not print. Data is UTF-8 already, as its encoders
// make it.
func escaped(data []byte, escape func(*bytes.Buffer, rune)) []byte {
	if isPrintable(string(data)) {
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

// EncodeJSON is a value as indented JSON that is safe to print.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return PrintableJSON(b.Bytes()), nil
}
