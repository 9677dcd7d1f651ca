package show

import (
	"encoding/json"
	"encoding/xml"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

func TestPrintableEscapesControlCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ünïcode 漢字\ttab\nline": "plain, ünïcode 漢字\ttab\nline",
		"\x1b]52;c;ZXZpbA==\x07":       `\x1b]52;c;ZXZpbA==\a`,
		"a\rb":                         `a\rb`,
		"\x7f":                         `\x7f`,
		"\u009b31m":                    `\u009b31m`,
		"\x9b31m":                      `\x9b31m`,
		"a\u202eb\u2066c":              `a\u202eb\u2066c`,
		"zero\u200bwidth\ufeff":        `zero\u200bwidth\ufeff`,
		"\u2028\u2029\u00a0":           `\u2028\u2029\u00a0`,
		"\U000e0041":                   `\U000e0041`,
		"\xff\ufffd":                   "\\xff\ufffd",
		"\x00":                         `\x00`,
	} {
		assert.Equal(t, want, Printable(text))
		assert.True(t, isPrintable(Printable(text)))
	}
	assert.Equal(t, `a\nb\tc\x1b`, Line("a\nb\tc\x1b"))
}

// hostile has characters that control a terminal or are invisible.
const hostile = "\x1b]52;c;x\x07 \x7f \u009b \u202e \u2028 \U000e0041 <&\""

func TestJSONDecodesToTheSameText(t *testing.T) {
	text, err := json.Marshal(map[string]string{hostile: hostile})
	require.NoError(t, err)
	text = JSON(text)
	assert.True(t, isPrintable(string(text)), "%q", text)
	assert.Contains(t, string(text), `\u009b`)
	assert.Contains(t, string(text), `\udb40\udc41`)
	back := testkit.JSON[map[string]string](t, text)
	assert.Equal(t, map[string]string{hostile: hostile}, back)
}

func TestXMLDecodesToTheSameText(t *testing.T) {
	type element struct {
		Name string `xml:"name,attr"`
		Text string `xml:",chardata"`
	}
	const text = "\x7f \u009b \u202e \u2028 \U000e0041 <&\""
	data, err := xml.Marshal(element{text, text})
	require.NoError(t, err)
	data = XML(data)
	assert.True(t, isPrintable(string(data)), "%q", data)
	var back element
	require.NoError(t, xml.Unmarshal(data, &back))
	assert.Equal(t, element{text, text}, back)
}

func FuzzPrintable(f *testing.F) {
	f.Add(hostile)
	f.Add("\xff\xfe\x80")
	f.Fuzz(func(t *testing.T, text string) {
		assert.True(t, isPrintable(Printable(text)))
		assert.NotContains(t, Line(text), "\n")
		plain, err := json.Marshal(text)
		require.NoError(t, err)
		safe := JSON(plain)
		assert.True(t, isPrintable(string(safe)))
		var back, want string
		require.NoError(t, json.Unmarshal(safe, &back))
		require.NoError(t, json.Unmarshal(plain, &want))
		assert.Equal(t, want, back)
	})
}

func TestLongTextsAreCut(t *testing.T) {
	assert.Equal(t, `a\nb`, Short("a\nb", 4))
	assert.Equal(t, "aü…", Short("aüü", 4))
	assert.Equal(t, `"a\x1b"`, Quote("a\x1b", 2))
	assert.Equal(t, `"aü"…`, Quote("aüü", 4))
}

func TestWordsOfAShell(t *testing.T) {
	for text, want := range map[string]string{
		"plain/word=1.2": "plain/word=1.2", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "a\nb": "'a\nb'",
	} {
		assert.Equal(t, want, ShellWord(text))
	}
	assert.Equal(t, "'plain'", ShellQuote("plain"))
}

func TestOctalEscapes(t *testing.T) {
	assert.Equal(t, "/a b\\c\xff", Unescape(`/a\040b\134c\377`))
	assert.Equal(t, `\4 \x20 \400`, Unescape(`\4 \x20 \400`), "no octal bytes")
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 61_234_567: "61.2 MB",
		999_949: "999.9 kB", 999_950: "1.0 MB", 2_500_000_000: "2.5 GB", 1 << 60: "1152921.5 TB",
	} {
		assert.Equal(t, want, Size(bytes), bytes)
	}
}

func TestLength(t *testing.T) {
	for span, want := range map[time.Duration]string{
		0: "0 ms", 999 * time.Millisecond: "999 ms", 1400 * time.Millisecond: "1.4 s",
		59 * time.Second: "59.0 s", 125 * time.Second: "2 min 5 s",
	} {
		assert.Equal(t, want, Length(span), span)
	}
}

func TestCount(t *testing.T) {
	assert.Equal(t, "1 action", Count(1, "action"))
	assert.Equal(t, "0 actions", Count(0, "action"))
	assert.Equal(t, "2 files", Count(int64(2), "file"))
}
