package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
)

// REST is the protocol of EKS
// (https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html): the method
// and the path name the action.
type REST struct {
	// Routes are the actions by patterns of http.ServeMux, such as "GET /clusters/{name}" of
	// DescribeCluster. Names in braces become parameters, and so do the parts of
	// the query and of the body.
	Routes map[string]string
}

func (p REST) action(_ *http.Request, call Call) (string, error) {
	name, _, err := p.route(call)
	return name, err
}

// route returns the action and its parameters.
func (p REST) route(call Call) (name string, parameters map[string]string, err error) {
	routes := http.NewServeMux()
	for route, action := range p.Routes {
		routes.HandleFunc(route, func(_ http.ResponseWriter, in *http.Request) {
			name, parameters = action, map[string]string{}
			for _, of := range parameterName.FindAllStringSubmatch(route, -1) {
				parameters[of[1]] = in.PathValue(of[1])
			}
			for key, values := range in.URL.Query() {
				parameters[key] = strings.Join(values, ",")
			}
		})
	}
	in := call.Request.Clone(call.Request.Context())
	if routes.ServeHTTP(httptest.NewRecorder(), in); name == "" {
		err = Refuse("%s %s of %s", in.Method, in.URL.EscapedPath(), call.Service)
	}
	return name, parameters, err
}

var parameterName = regexp.MustCompile(`\{(\w+)\}`)

func (p REST) decode(call Call, into any) error {
	_, parameters, err := p.route(call)
	if err != nil {
		return err
	}
	members := map[string]any{}
	if call.Body != "" {
		if err := json.Unmarshal([]byte(call.Body), &members); err != nil {
			return Refuse("the parameters of %s: %v", call.Action, err)
		}
	}
	for name, value := range parameters {
		members[name] = value
	}
	text, err := json.Marshal(members)
	if err != nil {
		return Refuse("the parameters of %s: %v", call.Action, err)
	}
	call.Body = string(text)
	return JSON{}.decode(call, into)
}

func (REST) write(out http.ResponseWriter, call Call, requestID string, answer any, failure *Failure) {
	if failure != nil {
		out.Header().Set("X-Amzn-Errortype", failure.Code)
	}
	JSON{}.write(out, call, requestID, answer, failure)
}

// RESTXML is the protocol of Route 53
// (https://smithy.io/2.0/aws/protocols/aws-restxml-protocol.html): REST with
// XML responses.
type RESTXML struct{ REST }

func (RESTXML) write(out http.ResponseWriter, call Call, requestID string, answer any, failure *Failure) {
	Query{}.write(out, call, requestID, answer, failure)
}

// target is the header that names the action in JSON, such as
// "AmazonSSM.GetParameter".
const target = "X-Amz-Target"

// JSON is the protocol of SSM
// (https://smithy.io/2.0/aws/protocols/aws-json-1_1-protocol.html).
type JSON struct{}

func (JSON) action(in *http.Request, _ Call) (string, error) {
	_, name, found := strings.Cut(in.Header.Get(target), ".")
	if !found {
		return "", Refuse("a call without %s", target)
	}
	return name, nil
}

func (JSON) decode(call Call, into any) error {
	decoder := json.NewDecoder(strings.NewReader(call.Body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return Refuse("the parameters of %s: %v", call.Action, err)
	}
	return nil
}

func (JSON) write(out http.ResponseWriter, _ Call, requestID string, answer any, failure *Failure) {
	status := http.StatusOK
	if failure != nil {
		status = failure.Status
		answer = map[string]string{"__type": failure.Code, "message": failure.Message}
	}
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(out, fmt.Sprintf("writing the answer: %v", err), http.StatusInternalServerError)
		return
	}
	out.Header().Set("X-Amzn-Requestid", requestID)
	writeBody(out, status, "application/x-amz-json-1.1", bytes.NewReader(text))
}

// writeBody sends a response. It ignores write errors: they mean that the
// client closed the connection.
func writeBody(out http.ResponseWriter, status int, contentType string, body io.Reader) {
	out.Header().Set("Content-Type", contentType)
	out.WriteHeader(status)
	_, _ = io.Copy(out, body)
}
