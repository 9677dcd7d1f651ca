package endpoint

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type greetIn struct {
	Name string `query:"Name"`
}

type greetOut struct {
	Greeting string `xml:"greeting" json:"greeting"`
	Region   string `xml:"region" json:"region"`
}

func greet(_ context.Context, call Call, in greetIn) (greetOut, error) {
	switch in.Name {
	case "":
		return greetOut{}, Fail("MissingName", "the name is missing")
	case "trouble":
		return greetOut{}, errors.New("out of paper")
	}
	return greetOut{"hello <" + in.Name + ">", call.Region}, nil
}

func newEndpoint(t *testing.T) (*Endpoint, string) {
	t.Helper()
	actions := map[string]Action{"Greet": Handle(greet)}
	e := New("AKIATEST",
		Service{Name: "ec2", Protocol: EC2{Version: "1"}, Actions: actions},
		Service{Name: "sts", Protocol: Query{Version: "2"}, Actions: actions},
		Service{Name: "ssm", Protocol: JSON{}, Actions: actions})
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return e, server.URL
}

// signed returns the signature header of a call to a service.
func signed(service string) string {
	return "AWS4-HMAC-SHA256 Credential=AKIATEST/20260102/eu-west-1/" + service + "/aws4_request, SignedHeaders=host, Signature=0"
}

func post(t *testing.T, url string, header map[string]string, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func TestRefusals(t *testing.T) {
	ec2 := map[string]string{"Authorization": signed("ec2")}
	for name, test := range map[string]struct {
		path   string
		header map[string]string
		body   string
		want   string
	}{
		"not signed":              {"/", nil, "Action=Greet", "POST /: not signed with AWS4-HMAC-SHA256"},
		"unknown service":         {"/", map[string]string{"Authorization": signed("s3")}, "Action=Greet", `the service &#34;s3&#34;: supported services are [&#34;ec2&#34; &#34;ssm&#34; &#34;sts&#34;]`},
		"path":                    {"/clusters", ec2, "Action=Greet", "POST /clusters of ec2: calls must be POST requests to /"},
		"unknown action":          {"/", ec2, "Action=Wave&Version=1", "the action Wave of ec2: supported actions are Greet"},
		"no action":               {"/", ec2, "Version=1", "a call without an Action"},
		"no X-Amz-Target":         {"/", map[string]string{"Authorization": signed("ssm")}, "{}", "a call without X-Amz-Target"},
		"version":                 {"/", ec2, "Action=Greet&Version=2", `version &#34;2&#34; of ec2: the supported version is &#34;1&#34;`},
		"unknown parameter":       {"/", ec2, "Action=Greet&Version=1&Loud=true", "the parameter Loud of Greet"},
		"unknown member":          {"/", map[string]string{"Authorization": signed("ssm"), "X-Amz-Target": "AmazonSSM.Greet"}, `{"Loud":true}`, `the parameters of Greet: json: unknown field \"Loud\"`},
		"body":                    {"/", ec2, "Action=%zz", "the body: invalid URL escape"},
		"error inside the double": {"/", ec2, "Action=Greet&Version=1&Name=trouble", "out of paper"},
	} {
		t.Run(name, func(t *testing.T) {
			e, url := newEndpoint(t)
			status, text := post(t, url+test.path, test.header, test.body)
			assert.Equal(t, http.StatusBadRequest, status, "clients must not retry this status")
			assert.Contains(t, text, test.want)
			assert.Len(t, e.Refusals(), 1)
		})
	}
}

// A developer's own access key must not appear in a response or a log.
func TestForeignAccessKeyIsRefusedAndNotRepeated(t *testing.T) {
	e, url := newEndpoint(t)
	authorization := strings.Replace(signed("ec2"), "AKIATEST", "AKIAREAL", 1)
	status, text := post(t, url, map[string]string{"Authorization": authorization}, "Action=Greet&Version=1&Name=you")
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Contains(t, text, "<Code>AuthFailure</Code>")
	assert.NotContains(t, text, "AKIAREAL")
	require.Len(t, e.Calls(), 1)
	assert.NotContains(t, e.Calls()[0].String(), "AKIAREAL")
}

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
