package strictjson

import (
	"fmt"
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
	} `json:"deep"`
	When time.Time `json:"when"`
}

func TestYAMLIsReadAsJSONIs(t *testing.T) {
	var s sample
	require.NoError(t, ReadYAML([]byte("# a comment\nname: a\nlist: [b]\nmap: {c: \"1\"}\ndeep:\n  ratio: 0.5\n"), &s))
	assert.Equal(t, "a b 1 0.5", fmt.Sprint(s.Name, " ", s.List[0], " ", s.Map["c"], " ", s.Deep.Ratio))
	for text, want := range map[string]string{
		"":                        "the text is empty",
		"# nothing\n":             "the text is empty",
		"name: 5\n":               "line 1: the field name: expected a string, found a number",
		"on: true\nname: 1.34\n":  "line 2: the field name: expected a string, found a number",
		"on: true\ncuont: 1\n":    `line 2: the field "cuont" is not known; did you mean count?`,
		"name: a\nname: b\n":      `line 2: mapping key "name" already defined at line 1`,
		"map:\n  a: b\n  a: c\n":  `line 1: the field map: line 3: mapping key "a" already defined at line 2`,
		"name:\n":                 "line 1: the field name has no value",
		"deep:\n  ratoi: 1\n":     `line 2: the field "ratoi" is not known; did you mean ratio?`,
		"- a\n":                   "expected fields with values, such as name: value",
		"name: a\n---\nname: b\n": "more than one YAML document; keep one",
		"name: [\n":               "line 1: did not find expected node content",
		"{\"name\": 5}":           "line 1, column 10: the field name: expected a string, found a number",
	} {
		require.EqualError(t, ReadYAML([]byte(text), &sample{}), want, text)
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
