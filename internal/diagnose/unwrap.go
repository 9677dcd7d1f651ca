package diagnose

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/buger/jsonparser"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/expand"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// wrappers are the JSON names under which other programs store the text of a
// program: journalctl, container runtimes and Fluent Bit, the AWS CLI's console
// output, CloudWatch and Kubernetes events, CloudWatch Logs Insights.
var wrappers = []string{"MESSAGE", "log", "Output", "message", "@message"}

// ownErrors are the names of a program's own log in JSON. Its message is not the
// whole story, so the line is searched as it is.
var ownErrors = []string{"error", "err", "level", "severity"}

// lists are the names of lists of log lines: of CloudWatch, of its subscriptions
// and its Logs Insights, of kubectl.
var lists = []string{"events", "logEvents", "results", "items"}

// wrapperNames are in every object that has log lines.
var wrapperNames = show.Each(slices.Concat(wrappers, lists, []string{"field", "awslogs"}), strconv.Quote)

// readNames are the names of all fields that are read.
var readNames = func() map[string]bool {
	all := map[string]bool{}
	for _, name := range slices.Concat(wrappers, lists, ownErrors, unitFields, timeFields,
		[]string{"field", "value", "awslogs", "_BOOT_ID", "__REALTIME_TIMESTAMP"}) {
		all[name] = true
	}
	return all
}()

var quote = []byte(`"`)

// deepestJSON is how deep JSON may be nested.
const deepestJSON = 6

// unwrap extracts log lines from a line of JSON: an object, a list or a text, or one
// field of an object that is written over several lines.
func unwrap(line string) []extract {
	text := strings.TrimSpace(strings.TrimLeft(strings.TrimPrefix(line, "data: "), "\x1e")) // json-sse, json-seq
	var found []extract
	ok := false
	switch {
	case text == "":
	case strings.IndexByte("{[", text[0]) >= 0:
		found, ok = ofJSON(text, 0)
	case text[0] == '"':
		text = strings.TrimSuffix(text, ",")
		if found, ok = ofJSON("{"+text+"}", 0); !ok { // json-pretty
			found, ok = ofJSON(text, 0)
		}
	}
	if !ok {
		return []extract{{line: line}}
	}
	return found
}

// extract is a log line and what the JSON around the line says about it.
type extract struct {
	line  string
	entry journalEntry
}

// ofJSON extracts the log lines of a JSON value, or returns false if it has none.
func ofJSON(text string, depth int) ([]extract, bool) {
	if depth > deepestJSON {
		return nil, false
	}
	switch text[0] {
	case '"':
		var said string
		if json.Unmarshal([]byte(text), &said) != nil {
			return nil, false
		}
		return linesOf(said, journalEntry{}, depth), true
	case '[':
		var list []json.RawMessage
		if json.Unmarshal([]byte(text), &list) != nil {
			return nil, false
		}
		return ofList(list, depth)
	case '{':
		if fields := fieldsOf(text); fields != nil {
			return ofObject(fields, depth)
		}
	}
	return nil, false
}

// ofList extracts the log lines of a list of objects, lists or texts.
func ofList(list []json.RawMessage, depth int) (all []extract, found bool) {
	for _, one := range list {
		lines, ok := ofJSON(string(one), depth+1)
		all, found = append(all, lines...), found || ok
	}
	return all, found
}

// fieldsOf are the fields of an object that are read, or nil if the text is none that has
// log lines.
func fieldsOf(text string) map[string]json.RawMessage {
	object := []byte(text)
	if !hasOne(text, wrapperNames) || !json.Valid(object) {
		return nil
	}
	fields := make(map[string]json.RawMessage, 8)
	err := jsonparser.ObjectEach(object, func(name, value []byte, kind jsonparser.ValueType, _ int) error {
		if !readNames[string(name)] {
			return nil
		}
		if kind == jsonparser.String {
			value = slices.Concat(quote, value, quote)
		}
		fields[string(name)] = value
		return nil
	})
	if err != nil {
		return nil
	}
	return fields
}

func ofObject(fields map[string]json.RawMessage, depth int) ([]extract, bool) {
	for _, name := range wrappers {
		if fields[name] == nil || name == "message" && slices.ContainsFunc(ownErrors,
			func(own string) bool { return fields[own] != nil }) {
			continue
		}
		if said, ok := saidBy(fields[name]); ok {
			if name == "Output" {
				said = decoded(said)
			}
			return linesOf(said, entryOf(fields), depth), true
		}
	}
	field, named := textOf(fields["field"]) // of Logs Insights
	if value, ok := textOf(fields["value"]); ok && named {
		if field == "@message" {
			return linesOf(value, journalEntry{}, depth), true
		}
		return nil, true
	}
	if text := subscribed(fields["awslogs"]); strings.HasPrefix(text, "{") {
		return ofJSON(text, depth+1)
	}
	for _, name := range lists {
		var list []json.RawMessage
		if fields[name] != nil && json.Unmarshal(fields[name], &list) == nil {
			if lines, ok := ofList(list, depth); ok {
				return lines, true
			}
		}
	}
	return nil, false
}

// subscribed is the text in an event that a subscription of CloudWatch sends to
// Lambda: base64 of gzip. It is cut off at lineMost.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/SubscriptionFilters.html
func subscribed(raw json.RawMessage) string {
	var event struct {
		Data []byte `json:"data"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &event) != nil || !expand.Is(event.Data) {
		return ""
	}
	in, err := expand.Open(event.Data, bytes.NewReader(event.Data))
	if err != nil {
		return ""
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, lineMost))
	if err != nil {
		return ""
	}
	return string(text)
}

// textOf is a JSON text.
func textOf(raw json.RawMessage) (text string, ok bool) {
	if len(raw) > 1 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) { // most texts
		return string(raw[1 : len(raw)-1]), true
	}
	ok = len(raw) > 0 && json.Unmarshal(raw, &text) == nil
	return text, ok
}

// saidBy reads a text, or what journalctl writes instead: a list of bytes for an
// unprintable text, a list of texts for several fields, null for a long text.
func saidBy(raw json.RawMessage) (said string, ok bool) {
	if string(raw) == "null" {
		return "", true
	}
	if said, ok = textOf(raw); ok {
		return said, true
	}
	var numbers []uint16
	if json.Unmarshal(raw, &numbers) == nil {
		text := make([]byte, len(numbers))
		for i, c := range numbers {
			text[i] = byte(c)
		}
		return string(text), true
	}
	var texts []string
	err := json.Unmarshal(raw, &texts)
	return strings.Join(texts, "\n"), err == nil
}

// decoded is console output in the form of EC2's API, decoded. The AWS CLI decodes it
// itself.
func decoded(said string) string {
	text, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(said), ""))
	if err != nil || len(text) == 0 || !utf8.Valid(text) && !isText(text[:min(len(text), sniffed)]) {
		return said
	}
	return string(text)
}

// linesOf splits a text into lines, and extracts those that are JSON again.
func linesOf(said string, about journalEntry, depth int) []extract {
	var all []extract
	for _, line := range strings.FieldsFunc(said, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if strings.HasPrefix(line, "{") {
			if inner, ok := ofJSON(line, depth+1); ok {
				for i := range inner {
					inner[i].entry.fill(about)
				}
				all = append(all, inner...)
				continue
			}
		}
		all = append(all, extract{line, about})
	}
	return all
}
