package strictjson

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type sample struct {
	Name  string            `json:"name"`
	Count int               `json:"count"`
	On    bool              `json:"on"`
	List  []string          `json:"list"`
	Map   map[string]string `json:"map"`
	Deep  struct {
		Ratio float64 `json:"ratio"`
		Inner string  `json:"inner"`
	} `json:"deep"`
	When   time.Time `json:"when"`
	Unread string    `json:"-"`
	embedded
}

type embedded struct {
	Embedded string `json:"embedded"`
}

func TestYAMLIsReadAsJSONIs(t *testing.T) {
	var s sample
	text := "# a comment\nname: a\nlist: [b]\nmap: {c: \"1\"}\ndeep:\n  inner: d\nembedded: e\n"
	lines, err := ReadYAML("f", []byte(text), &s)
	require.NoError(t, err)
	assert.Equal(t, "a b 1 d e", strings.Join([]string{s.Name, s.List[0], s.Map["c"], s.Deep.Inner, s.Embedded}, " "))
	assert.Equal(t, 6, lines["deep.inner"])
	_, err = ReadYAML("f", []byte(`{"name": "\ud83d\uDE00 \\ud83d\u00e4\"\/"}`), &s)
	require.NoError(t, err)
	assert.Equal(t, "😀 \\ud83dä\"/", s.Name)
	for text, want := range map[string]string{
		"":                        "f: the text is empty",
		"# nothing\n":             "f: the text is empty",
		"name: 5\n":               "f:1: name: must be text, not a number; put 5 in quotes",
		"on: true\nname: 1.34\n":  "f:2: name: must be text, not a number; put 1.34 in quotes",
		"on: true\ncuont: 1\n":    "f:2: cuont: unknown field; did you mean count?",
		"-: a\n":                  "f:1: -: unknown field; known are count, deep, embedded, list, map, name, on, when",
		"name: a\nname: b\n":      "f:2: name: the field is set twice; first in line 1",
		"map:\n  a: b\n  a: c\n":  "f:3: map.a: the field is set twice; first in line 2",
		"name:\ncount: x\n":       "f:1: name: there is no value\nf:2: count: must be a whole number, not text",
		"deep:\n  innre: 1\n":     "f:2: deep.innre: unknown field; did you mean inner?",
		"- a\n":                   "f:1: the file: must be an object, not a list",
		"name: a\n---\nname: b\n": "f: more than one YAML document; keep one",
		"name: [\n":               "f: line 1: did not find expected node content",
		"{\n\t\"name\":\t5\n}":    "f:2: name: must be text, not a number; put 5 in quotes",
		"{\"name\": \"a\"} {}":    "f: more than one YAML document; keep one",
	} {
		_, err := ReadYAML("f", []byte(text), new(sample))
		require.EqualError(t, err, want, text)
	}
}

func TestErrorsNameThePlaceAndTheFault(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "the text is empty",
		" \n":                            "the text is empty",
		"{":                              "line 1, column 2: the text ends too early",
		"{\n  \"name\": \"a\",\n}":       "line 3, column 1: invalid character '}' looking for beginning of object key string",
		"hello":                          "line 1, column 1: invalid character 'h' looking for beginning of value",
		"{\n \"name\": 5\n}":             "line 2, column 10: the field name: expected a string, found a number",
		"{\"count\": \"5\"}":             "line 1, column 13: the field count: expected a whole number, found a string",
		"{\"count\": 1.5}":               "line 1, column 13: the field count: expected a whole number, found a number",
		"{\"on\": \"yes\"}":              "line 1, column 12: the field on: expected true or false, found a string",
		"{\"list\": \"a\"}":              "line 1, column 12: the field list: expected a list, found a string",
		"{\"map\": []}":                  "line 1, column 9: the field map: expected an object, found a list",
		"{\"deep\": {\"ratio\": \"x\"}}": "line 1, column 22: the field deep.ratio: expected a number, found a string",
		"[]":                             "line 1, column 1: expected an object, found a list",
		"{\n \"names\": 1}":              `line 2, column 2: the field "names" is not known; did you mean name?`,
		"{} {}":                          "line 1, column 4: more text follows the end",
	} {
		assert.EqualError(t, Read([]byte(text), new(sample)), want, "%q", text)
	}
	require.NoError(t, Read([]byte(`{"name": "a", "count": 1}`+"\n"), new(sample)))
	require.NoError(t, ReadKnown([]byte(`{"names": "a"}`), new(sample)))
	assert.EqualError(t, ReadKnown([]byte(`{"name": {}}`), new(sample)), "line 1, column 10: the field name: expected a string, found an object")
	err := ReadKnown([]byte(`{"when": "noon"}`), new(sample))
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "Go")
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{"", "{", `{"name": 1}`, `{"x": 1}`, `{"\u0078": 1}`, "[]", "{} {}", `{"when": 1}`, "\xff"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, err := range []error{Read(text, new(sample)), ReadKnown(text, new(sample))} {
			if err != nil {
				assert.NotContains(t, err.Error(), "Go ")
				assert.NotContains(t, err.Error(), "json: ")
			}
		}
	})
}
