package scrub

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"github.com/eksnode/packer-plugin-eksnode/internal/expand"
)

// runLeast is how long a base64 text must be to be decoded.
const runLeast = 24

// base64Runs searches the base64 texts in a text.
type base64Runs struct {
	c    *content
	part part
}

// block decodes the base64 texts that begin between from and limit.
func (r *base64Runs) block(text []byte, from, limit int, line int64) {
	i := from
	for i > 0 && i < len(text) && isBase64(text[i]) && (i > from || isBase64(text[i-1])) {
		i++ // the run began in the block before
	}
	for i < limit {
		end := i + runLeast
		if end > len(text) {
			break
		}
		last := end - 1
		for last >= i && isBase64(text[last]) {
			last--
		}
		if last >= i { // most words are short: go on behind the last gap
			i = last + 1
			continue
		}
		encoded, after := wholeRun(text, i)
		if !isArmor(text[:i]) {
			r.decode(encoded, text[:i], line)
		}
		i = after
	}
}

// wholeRun returns a base64 text without the ends of its lines, and where it
// ends.
func wholeRun(text []byte, begin int) (encoded []byte, end int) {
	for i := begin; ; {
		start := i
		for i < len(text) && isBase64(text[i]) {
			i++
		}
		encoded = append(encoded, text[start:i]...)
		if end = i; i-start < 60 {
			return encoded, end
		}
		for i < len(text) && (text[i] == '\n' || text[i] == '\r' || text[i] == ' ' || text[i] == '\t') {
			i++
		}
		if i == end || i == len(text) || !isBase64(text[i]) {
			return encoded, end
		}
	}
}

// isArmor reports whether a text ends with the first line of a PEM block, whose
// kind the line names.
func isArmor(before []byte) bool {
	return bytes.HasSuffix(bytes.TrimRight(before, " \t\r\n"), []byte("KEY-----"))
}

func isBase64(b byte) bool {
	return isToken(b) || b == '+' || b == '/'
}

// decode searches a base64 text if it means something: most runs of letters are
// names and digests.
func (r *base64Runs) decode(encoded, before []byte, line int64) {
	for i, b := range encoded {
		switch b {
		case '-':
			encoded[i] = '+'
		case '_':
			encoded[i] = '/'
		}
	}
	var start [48]byte
	if n, err := base64.RawStdEncoding.Decode(start[:], encoded[:min(64, len(encoded)/4*4)]); err != nil || !meaningful(start[:n]) {
		return
	}
	line += int64(bytes.Count(before, []byte("\n"))) + 1
	if len(encoded)%4 == 1 { // cut off
		encoded = encoded[:len(encoded)-1]
	}
	decoded := make([]byte, base64.RawStdEncoding.DecodedLen(len(encoded)))
	n, err := base64.RawStdEncoding.Decode(decoded, encoded)
	if err != nil && n == 0 {
		return
	}
	_ = r.c.inside(part{
		name: decodedName, where: fmt.Sprintf("%sin the base64 text of line %d, ", r.part.where, line),
		in: expanding{bytes.NewReader(decoded[:n]), r.c}, depth: r.part.depth + 1,
	})
}

// isSequence reports whether a content may be a key in DER.
func isSequence(head []byte) bool {
	return len(head) > 4 && head[0] == 0x30 && (head[1] == 0x81 || head[1] == 0x82 || bytes.Equal(head[2:5], []byte{2, 1, 0}))
}

// meaningful reports whether decoded bytes begin a text, a key or a compressed
// file.
func meaningful(head []byte) bool {
	if expand.Is(head) || isSequence(head) || keyForm("", head) != "" || wideText(head, nil) != nil {
		return true
	}
	for i := 0; i < len(head); {
		c, size := utf8.DecodeRune(head[i:])
		if c == utf8.RuneError && len(head)-i >= utf8.UTFMax || c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f {
			return false
		}
		i += size
	}
	return len(head) > 0
}
