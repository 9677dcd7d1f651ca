package diagnose

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each text has one line that shows a cause, in the form of another program.
func TestTheFormsOfOtherProgramsAreRead(t *testing.T) {
	said := lines["swap"][0]
	q := quoted(said)
	for name, c := range map[string]struct{ text, at string }{
		"console, two fields":          {"{\n    \"InstanceId\": \"i-0\",\n    \"Timestamp\": \"2026-11-20T20:11:13+00:00\",\n    \"Output\": " + quoted("boot\r\n"+said+"\r\n") + "\n}\n", "4"},
		"console of the API":           {`{"InstanceId":"i-0","Output":"` + base64.StdEncoding.EncodeToString([]byte("boot\r\n"+said+"\r\n")) + `"}`, "1"},
		"console, --query Output":      {quoted("boot\r\n"+said+"\r\n") + "\n", "1"},
		"console, --output text":       {"i-0\tboot\r\n" + said + "\r\n\t2026-11-20T20:11:13+00:00\n", "2"},
		"get-log-events":               {"{\n    \"events\": [\n        {\n            \"timestamp\": 1795205473325,\n            \"message\": " + q + ",\n            \"ingestionTime\": 1795205475000\n        }\n    ],\n    \"nextForwardToken\": \"f/1\"\n}\n", "5"},
		"filter-log-events, one line":  {`{"events":[{"logStreamName":"a","timestamp":1795205473325,"message":"one","eventId":"1"},{"logStreamName":"a","timestamp":1795205473326,"message":` + q + `,"eventId":"2"}],"searchedLogStreams":[]}`, "1"},
		"--query events[].message":     {"[\n    \"one\",\n    " + q + "\n]\n", "3"},
		"--query events, one line":     {`[{"timestamp":1795205473325,"message":` + q + `}]`, "1"},
		"logs tail":                    {"2026-11-20T20:11:13.325000+00:00 ip-10-0-1-2 " + said + "\n", "1"},
		"export to S3":                 {gzipped(t, "2026-11-20T20:11:13.325Z "+said+"\n"), "1"},
		"Logs Insights":                {`{"results":[[{"field":"@timestamp","value":"2026-11-20 20:11:13.325"},{"field":"@message","value":` + q + `},{"field":"@ptr","value":"C"}]],"status":"Complete"}`, "1"},
		"Logs Insights, many lines":    {"{\n  \"results\": [\n    [\n      {\n        \"field\": \"@message\",\n        \"value\": " + q + "\n      }\n    ]\n  ]\n}\n", "6"},
		"subscription":                 {`{"messageType":"DATA_MESSAGE","logGroup":"g","logEvents":[{"id":"1","timestamp":1795205473325,"message":` + q + `}]}`, "1"},
		"subscription to Lambda":       {`{"awslogs":{"data":"` + base64.StdEncoding.EncodeToString([]byte(gzipped(t, `{"logEvents":[{"message":`+q+`}]}`))) + `"}}`, "1"},
		"dataplane of the insights":    {`{"hostname":"ip-10-0-1-2","systemd_unit":"kubelet.service","message":` + q + `}`, "1"},
		"dataplane in a CloudWatch":    {`{"events":[{"timestamp":1795205473325,"message":` + quoted(`{"systemd_unit":"kubelet.service","message":`+q+`}`) + `}]}`, "1"},
		"Fluent Bit":                   {`{"log":` + quoted(said+"\n") + `,"stream":"stderr","kubernetes":{"pod_name":"a"}}`, "1"},
		"kubectl get events":           {"{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n        {\n            \"kind\": \"Event\",\n            \"message\": " + q + ",\n            \"reason\": \"Failed\"\n        }\n    ]\n}\n", "6"},
		"kubectl get events, one line": {`{"items":[{"kind":"Event","lastTimestamp":"2026-11-20T20:11:13Z","message":` + q + `}]}`, "1"},
		"kubectl describe node":        {"Events:\n  Type     Reason  Age  From     Message\n  ----     ------  ---  ----     -------\n  Warning  Failed  1m   kubelet  " + said + "\n", "4"},
		"several fields MESSAGE":       {`{"MESSAGE":["one",` + q + `]}`, "1"},
		"a program's own JSON":         {`{"level":"error","message":"Command failed","error":` + q + `}`, "1"},
		"event log of Windows":         {"#TYPE System.Diagnostics.Eventing.Reader.EventLogRecord\r\n\"Message\",\"Id\"\r\n\"" + strings.ReplaceAll(said, `"`, `""`) + "\",\"1\"\r\n", "3"},
		"journalctl --output export":   {"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1795205473325154\n_SYSTEMD_UNIT=kubelet.service\n_CMDLINE=kubelet\nMESSAGE=" + said + "\n\n", "5"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSearch(t.Context())
			require.NoError(t, s.Input("x", strings.NewReader(c.text))) // may be compressed
			r := s.Report()
			require.Len(t, r.Findings, 1)
			assert.Equal(t, "swap", r.Findings[0].Rule.ID)
			assert.Equal(t, 1, r.Findings[0].Count)
			assert.Contains(t, r.Findings[0].Evidence[0], "x:"+c.at+": ")
		})
	}
}

// Fields that are no log lines are not searched.
func TestOtherFieldsAreNoEvidence(t *testing.T) {
	said := lines["swap"][0]
	for _, text := range []string{
		`{"MESSAGE":"one","_CMDLINE":` + quoted(said) + `}`,
		`{"MESSAGE":null,"_CMDLINE":` + quoted(said) + `}`,
		"__CURSOR=s=1\n_CMDLINE=" + said + "\nMESSAGE=one\n\n",
		`{"events":[{"message":"one","tag":` + quoted(said) + `}]}`,
	} {
		assert.Empty(t, searched(t, "x\n"+text).Findings, text)
	}
}

// The first failure has the unit and the time that the JSON around it has.
func TestJSONSaysUnitAndTime(t *testing.T) {
	for unit, text := range map[string]string{
		"kubelet.service":     `{"systemd_unit":"kubelet.service","timestamp":1795205473325,"message":"E1120 strange failure, no such thing"}`,
		"nodeadm":             `{"events":[{"timestamp":1795205473325,"message":"nodeadm[12]: a strange failure"}]}`,
		"kubelet":             `{"items":[{"kind":"Event","lastTimestamp":"2026-11-20T20:11:13Z","reportingComponent":"kubelet","message":"a strange failure"}]}`,
		"nodeadm-run.service": "__CURSOR=s=1\n__REALTIME_TIMESTAMP=1795205473325154\n_SYSTEMD_UNIT=nodeadm-run.service\nMESSAGE=a strange failure\n\n",
	} {
		first := searched(t, "x\n"+text).First
		require.NotNil(t, first, text)
		assert.Equal(t, unit, first.Unit)
		assert.False(t, first.at.IsZero(), text)
	}
}

// Whatever a line is, the fields that are read are those of encoding/json.
func TestFieldsAreThoseOfEncodingJSON(t *testing.T) {
	const line = `{"MESSAGE":"a \"b\" } {","MESS\u0041GE":["x",{"log":"y"}], "log" : null ,"log":-1.5e3,` +
		`"_PID":"1","time":"","message":{"a":[{}]},"ident":"\ud83d\ude00é"}`
	check := func(line string) {
		var want map[string]json.RawMessage
		if json.Unmarshal([]byte(line), &want) != nil || !hasOne(line, wrapperNames) {
			want = nil
		}
		maps.DeleteFunc(want, func(name string, _ json.RawMessage) bool { return !readNames[name] })
		assert.Equal(t, want, fieldsOf(line), "%s", line)
	}
	for at := range line {
		check(line[:at])
		check(line[at:])
		for _, c := range []string{"", `"`, `\`, "}", "\xff", "\x01", " "} {
			check(line[:at] + c + line[at+1:])
		}
	}
	check(line)
	check(`{"log":` + strings.Repeat("[", 1<<20))
	check(`{"log":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`)
}

func FuzzUnwrap(f *testing.F) {
	for _, text := range []string{
		`{"MESSAGE":[27,91]}`, `{"MESSAGE":null}`, `{"events":[{"message":"{\"log\":\"a\"}"}]}`, `[[{"field":"@message","value":"a"}]]`, `"a\nb",`,
		"__CURSOR=a\nMESSAGE=b\n\nMESSAGE\n\x01\x00\x00\x00\x00\x00\x00\x00a\n", "{\n\t\"MESSAGE\" : [\n\t\t27,\n\t\t91\n\t]\n}\n", "#TYPE a\n\"a\"\"b\"\n", `{"Output":"YQ=="}`,
		`{"awslogs":{"data":"H4sIAAAAAAAA/w=="}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var form lineForm
		for line := range strings.SplitSeq(text, "\n") {
			form.lines(line)
		}
	})
}
