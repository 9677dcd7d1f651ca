package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// REST is the protocol of EKS
// (https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html): the method
// and the path name the action.
type REST struct {
	// Routes are the actions by method and path, such as
	// "GET /clusters/{name}" of DescribeCluster. What is in braces becomes a
	// parameter of that name, as do the parts of the query.
	Routes map[string]string
}

// restBody is a call as JSON: the method, path and query, and the body.
func restBody(in *http.Request, body string) string {
	text, err := json.Marshal(restCall{in.Method, in.URL.EscapedPath(), in.URL.Query(), body})
	if err != nil {
		return body // four strings can always be written
	}
	return string(text)
}

type restCall struct {
	Method, Path string
	Query        url.Values
	Body         string
}

func (p REST) action(_ *http.Request, call Call) (string, error) {
	name, _, err := p.route(call)
	return name, err
}

// route finds the action and its parameters.
func (p REST) route(call Call) (string, map[string]string, error) {
	var in restCall
	if err := json.Unmarshal([]byte(call.Body), &in); err != nil {
		return "", nil, fmt.Errorf("reading the call: %w", err)
	}
	parts := strings.Split(in.Path, "/")
	for route, name := range p.Routes {
		method, path, _ := strings.Cut(route, " ")
		wanted := strings.Split(path, "/")
		if method != in.Method || len(wanted) != len(parts) {
			continue
		}
		parameters := map[string]string{}
		matches := true
		for i, part := range parts {
			value, err := url.PathUnescape(part)
			if err != nil {
				return "", nil, Refuse("the path %s: %v", in.Path, err)
			}
			if strings.HasPrefix(wanted[i], "{") {
				parameters[strings.Trim(wanted[i], "{}")] = value
			} else if wanted[i] != value {
				matches = false
			}
		}
		if !matches {
			continue
		}
		for key, values := range in.Query {
			parameters[key] = strings.Join(values, ",")
		}
		return name, parameters, nil
	}
	return "", nil, Refuse("%s %s of %s", in.Method, in.Path, call.Service)
}

func (p REST) decode(call Call, into any) error {
	_, parameters, err := p.route(call)
	if err != nil {
		return err
	}
	text, err := json.Marshal(parameters)
	if err != nil {
		return fmt.Errorf("reading the parameters: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return Refuse("the parameters of %s: %v", call.Action, err)
	}
	return nil
}

func (REST) write(out http.ResponseWriter, call Call, requestID string, answer any, failure *Failure) {
	if failure != nil {
		out.Header().Set("X-Amzn-Errortype", failure.Code)
	}
	JSON{}.write(out, call, requestID, answer, failure)
}
