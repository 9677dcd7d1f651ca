package show

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/agext/levenshtein"
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

// Size is a number of bytes in decimal units: 1 MB is 1,000,000 bytes.
func Size(bytes int64) string {
	units := []string{"kB", "MB", "GB", "TB"}
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}
	value := float64(bytes) / 1000
	unit := 0
	for value >= 999.95 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// Length is a time span.
func Length(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
}

// Count is a number with its noun, in the singular for 1. The plural ends in s.
func Count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Wrap puts words on lines, each but the last with an end.
func Wrap(words []string, width int, end string) []string {
	lines := []string{""}
	for _, word := range words {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			*last += end
			lines = append(lines, word)
		}
	}
	return lines
}

// Each returns what a function makes of each entry of a list; nil for no entries.
func Each[T, Made any](list []T, do func(T) Made) []Made {
	var all []Made
	for _, entry := range list {
		all = append(all, do(entry))
	}
	return all
}

// plainWord matches words that a shell leaves as they are.
var plainWord = Regexp(`^[\w@%+=:,./-]+$`)

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

var octal = Regexp(`\\[0-3][0-7]{2}`)

// Unescape replaces octal escapes such as \040, which the kernel's tables, fstab(5)
// and mtree(5) use for bytes in names.
func Unescape(name string) string {
	return octal().ReplaceAllStringFunc(name, func(code string) string {
		n, _ := strconv.ParseUint(code[1:], 8, 8) // the expression has only such numbers
		return string([]byte{byte(n)})
	})
}

// UUID is the text of an identifier of 16 bytes.
func UUID(b []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Meant returns "; did you mean NAME?" with the known name that is most similar to an
// unknown one, or an empty text.
func Meant(name string, known []string) string {
	if best := Nearest(name, known); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// Suggest returns "did you mean NAME?" for an unknown name, or lists the known names.
func Suggest(name string, known []string) string {
	if best := Nearest(name, known); best != "" {
		return "did you mean " + best + "?"
	}
	known = slices.DeleteFunc(slices.Clone(known), func(k string) bool { return k == "" })
	return "known are " + strings.Join(known, ", ")
}

// Nearest returns the known name that is most similar to an unknown name, or an empty
// text.
func Nearest(name string, known []string) string {
	if len(name) > 100 {
		return ""
	}
	best, distance := "", len(name)/2+1
	for _, n := range known {
		d, a, b := Edits(name, n), strings.ToLower(name), strings.ToLower(n)
		if len(b) > 2 && strings.Contains(a, b) || len(a) > 2 && strings.Contains(b, a) {
			d = min(d, len(name)/2) // clusterName means name
		}
		if len(a) > 2 && strings.HasPrefix(b, a) {
			d = min(d, len(name)/3) // kubernetes means kubernetes_version, not kernel
		}
		if d < distance {
			best, distance = n, d
		}
	}
	return best
}

// Edits returns the number of single-character changes between two words, whatever
// their case.
func Edits(a, b string) int {
	return levenshtein.Distance(strings.ToLower(a), strings.ToLower(b), nil)
}

// Regexp is a regular expression that is compiled when it is first used: a command needs
// few of them.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
