package endpoint

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type part struct {
	Key   string   `query:"Key"`
	Words []string `query:"Word"`
}

type everything struct {
	Text   string  `query:"Text"`
	Number int     `query:"Number"`
	Maybe  *bool   `query:"Maybe"`
	Count  *int    `query:"Count"`
	Parts  []part  `query:"Part"`
	One    part    `query:"One"`
	Other  *part   `query:"Other"`
	Odd    float64 `query:"Odd"`
}

func TestDecodeQuery(t *testing.T) {
	values, err := url.ParseQuery("Text=a+b&Number=-7&Maybe=false&One.Key=k&One.Word.1=w" +
		"&Part.2.Key=second&Part.1.Key=first&Part.1.Word.2=y&Part.1.Word.1=x")
	require.NoError(t, err)
	var got everything
	require.NoError(t, decodeQuery(values, &got))
	no := false
	assert.Equal(t, everything{
		Text: "a b", Number: -7, Maybe: &no, One: part{Key: "k", Words: []string{"w"}},
		Parts: []part{{Key: "first", Words: []string{"x", "y"}}, {Key: "second"}},
	}, got)
}

func TestDecodeQueryRefusesInvalidParameters(t *testing.T) {
	for query, want := range map[string]string{
		"Unknown=1":                   "the parameter Unknown",
		"One.Unknown=1":               "the parameter One.Unknown",
		"Part.1.Other.Unknown=1":      "the parameter Part.1.Other",
		"text=1":                      "the parameter text",
		"Text.1=a":                    "the parameter Text with parts",
		"One=a":                       "the parameter One without parts",
		"Part=a":                      "the parameter Part without a number",
		"Part.0.Key=a":                `the parameter Part has the numbers ["0"]`,
		"Part.1.Key=a&Part.3.Key=b":   `the parameter Part has the numbers ["1" "3"]`,
		"One.Word.first=a":            `the parameter One.Word has the numbers ["first"]`,
		"Number=many":                 `the parameter Number=many: strconv.Atoi: parsing "many": invalid syntax`,
		"Maybe=perhaps":               `the parameter Maybe=perhaps: strconv.ParseBool: parsing "perhaps": invalid syntax`,
		"Odd=1.5":                     "the parameter Odd=1.5: a field of kind float64",
		"Text=a&Text=b":               "the parameter Text, given 2 times",
		"Text=fine&One.Key=k&One.1=x": "the parameter One.1",
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		var got everything
		assert.EqualError(t, decodeQuery(values, &got), want, query)
	}
}
