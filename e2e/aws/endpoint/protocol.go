package endpoint

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Protocol reads the calls of a service and writes the responses: EC2, Query or
// JSON.
type Protocol interface {
	// action returns the name of the action.
	action(in *http.Request, call Call) (string, error)
	// decode reads the parameters strictly.
	decode(call Call, into any) error
	// write sends the response, or the failure if there is one.
	write(out http.ResponseWriter, call Call, requestID string, answer any, failure *Failure)
}

// protocolOf returns the protocol for the error to a caller that no service can
// serve.
func protocolOf(in *http.Request) Protocol {
	if in.Header.Get(target) != "" {
		return JSON{}
	}
	return Query{}
}

// EC2 is the protocol of EC2
// (https://smithy.io/2.0/aws/protocols/aws-ec2-query-protocol.html).
type EC2 struct {
	// Version is the API version. Calls with another version are refused.
	Version string
}

// Query is the protocol of STS and IAM
// (https://smithy.io/2.0/aws/protocols/aws-query-protocol.html).
type Query struct{ Version string }

func (EC2) action(_ *http.Request, call Call) (string, error)   { return queryAction(call) }
func (Query) action(_ *http.Request, call Call) (string, error) { return queryAction(call) }

func (p EC2) decode(call Call, into any) error   { return queryDecode(p.Version, call, into) }
func (p Query) decode(call Call, into any) error { return queryDecode(p.Version, call, into) }

func queryAction(call Call) (string, error) {
	values, err := url.ParseQuery(call.Body)
	if err != nil {
		return "", Refuse("the body: %v", err)
	}
	if values.Get("Action") == "" {
		return "", Refuse("a call without an Action")
	}
	return values.Get("Action"), nil
}

func queryDecode(version string, call Call, into any) error {
	values, err := url.ParseQuery(call.Body)
	if err != nil {
		return Refuse("the body: %v", err)
	}
	if got := values.Get("Version"); got != version {
		return Refuse("version %q of %s: the supported version is %q", got, call.Service, version)
	}
	values.Del("Action")
	values.Del("Version")
	if err := decodeQuery(values, into); err != nil {
		return Refuse("%v of %s", err, call.Action)
	}
	return nil
}

type xmlError struct {
	Type    string `xml:"Type,omitempty"`
	Code    string
	Message string
}

func (p EC2) write(out http.ResponseWriter, call Call, requestID string, answer any, failure *Failure) {
	if failure != nil {
		writeXML(out, failure.Status, "<Response><Errors><Error>%s</Error></Errors><RequestID>%s</RequestID></Response>",
			innerXML(xmlError{Code: failure.Code, Message: failure.Message}), requestID)
		return
	}
	writeXML(out, http.StatusOK, `<%[1]sResponse xmlns="http://ec2.amazonaws.com/doc/%[2]s/">`+
		"<requestId>%[3]s</requestId>%[4]s</%[1]sResponse>", call.Action, p.Version, requestID, innerXML(answer))
}

func (p Query) write(out http.ResponseWriter, call Call, requestID string, answer any, failure *Failure) {
	if failure != nil {
		writeXML(out, failure.Status, "<ErrorResponse><Error>%s</Error><RequestId>%s</RequestId></ErrorResponse>",
			innerXML(xmlError{Type: "Sender", Code: failure.Code, Message: failure.Message}), requestID)
		return
	}
	writeXML(out, http.StatusOK, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult>"+
		"<ResponseMetadata><RequestId>%[3]s</RequestId></ResponseMetadata></%[1]sResponse>",
		call.Action, innerXML(answer), requestID)
}

// innerXML renders the fields of a struct without the enclosing element.
func innerXML(value any) []byte {
	text, err := xml.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("writing the answer: %v", err)) // a value of the doubles
	}
	begin, end := bytes.IndexByte(text, '>'), bytes.LastIndex(text, []byte("</"))
	return text[begin+1 : end]
}

func writeXML(out http.ResponseWriter, status int, format string, values ...any) {
	text := xml.Header + fmt.Sprintf(format, values...)
	writeBody(out, status, "text/xml;charset=UTF-8", strings.NewReader(text))
}

// Written returns a response in the form of a protocol.
func Written(protocol Protocol, call Call, answer any) []byte {
	out := httptest.NewRecorder()
	protocol.write(out, call, "", answer, nil)
	return out.Body.Bytes()
}

// tree holds a query's parameters, split at their dots: "Filter.1.Value.2" is a
// value four levels down.
type tree struct {
	path     string
	value    *string
	children map[string]*tree
}

// decodeQuery reads parameters into a struct. The tag `query` names a field's
// parameter; without it, the field has the parameter's name. Lists are numbered
// from 1, in the protocol Query below "member". A field is a struct, a slice, a string,
// a number, a bool, or a pointer to one of these; the pointer is nil when the
// parameter is missing. A parameter without a field, or with a wrong number or
// form, is an error.
func decodeQuery(values url.Values, into any) error {
	root := &tree{}
	for name, all := range values {
		if len(all) != 1 {
			return fmt.Errorf("the parameter %s, given %d times", name, len(all))
		}
		root.add(name, all[0])
	}
	return root.decode(reflect.ValueOf(into).Elem())
}

func (t *tree) add(name, value string) {
	node := t
	for part := range strings.SplitSeq(name, ".") {
		child := node.children[part]
		if child == nil {
			child = &tree{path: strings.TrimPrefix(node.path+"."+part, ".")}
			if node.children == nil {
				node.children = map[string]*tree{}
			}
			node.children[part] = child
		}
		node = child
	}
	node.value = &value
}

func (t *tree) decode(into reflect.Value) error {
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return t.decode(into.Elem())
	case reflect.Struct:
		return t.decodeStruct(into)
	case reflect.Slice:
		return t.decodeSlice(into)
	}
	if t.children != nil {
		return fmt.Errorf("the parameter %s with parts", t.path)
	}
	return t.decodeScalar(into)
}

func (t *tree) decodeStruct(into reflect.Value) error {
	if t.value != nil {
		return fmt.Errorf("the parameter %s without parts", t.path)
	}
	for _, name := range slices.Sorted(maps.Keys(t.children)) {
		child := t.children[name]
		fields := reflect.VisibleFields(into.Type())
		index := slices.IndexFunc(fields, func(field reflect.StructField) bool {
			return field.IsExported() && cmp.Or(field.Tag.Get("query"), field.Name) == name
		})
		if index < 0 {
			return fmt.Errorf("the parameter %s", child.path)
		}
		if err := child.decode(into.FieldByIndex(fields[index].Index)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) decodeSlice(into reflect.Value) error {
	if t.value != nil {
		return fmt.Errorf("the parameter %s without a number", t.path)
	}
	if members := t.children["member"]; members != nil && len(t.children) == 1 { // lists of the protocol Query
		return members.decodeSlice(into)
	}
	into.Set(reflect.MakeSlice(into.Type(), len(t.children), len(t.children)))
	for i := range len(t.children) {
		child := t.children[strconv.Itoa(i+1)]
		if child == nil {
			return fmt.Errorf("the parameter %s has the numbers %q", t.path, slices.Sorted(maps.Keys(t.children)))
		}
		if err := child.decode(into.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) decodeScalar(into reflect.Value) (err error) {
	switch into.Kind() {
	case reflect.String:
		into.SetString(*t.value)
	case reflect.Bool:
		var value bool
		value, err = strconv.ParseBool(*t.value)
		into.SetBool(value)
	case reflect.Int:
		var value int
		value, err = strconv.Atoi(*t.value)
		into.SetInt(int64(value))
	default:
		err = fmt.Errorf("a field of kind %s", into.Kind())
	}
	if err != nil {
		return fmt.Errorf("the parameter %s=%s: %w", t.path, *t.value, err)
	}
	return nil
}
