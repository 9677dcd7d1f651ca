package endpoint

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Endpoint answers the calls of several services. It is an http.Handler.
type Endpoint struct {
	accessKey string
	services  map[string]Service

	mutex sync.Mutex
	calls []Call
}

// New makes an endpoint for clients that sign with the access key.
func New(accessKey string, services ...Service) *Endpoint {
	endpoint := &Endpoint{accessKey: accessKey, services: map[string]Service{}}
	for _, service := range services {
		endpoint.services[service.Name] = service
	}
	return endpoint
}

// Calls answers all calls so far, in the order in which they were answered.
func (e *Endpoint) Calls() []Call {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return slices.Clone(e.calls)
}

// Count counts the calls so far by their actions.
func (e *Endpoint) Count() map[string]int {
	count := map[string]int{}
	for _, call := range e.Calls() {
		count[call.Service+":"+call.Action]++
	}
	return count
}

// Refusals answers the calls so far that no double understood. A test that
// finds one has to teach the double, not to tolerate it.
func (e *Endpoint) Refusals() []Call {
	return slices.DeleteFunc(e.Calls(), func(call Call) bool {
		return call.Failure == nil || call.Failure.Code != Refused && call.Failure.Code != doubleFailed
	})
}

// ServeHTTP answers one call.
func (e *Endpoint) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(in.Body)
	if err != nil {
		http.Error(out, fmt.Sprintf("reading the call: %v", err), http.StatusBadRequest)
		return
	}
	call := Call{Body: string(body), Request: in}
	protocol := protocolOf(in)
	var answer any
	service, err := e.find(in, &call)
	if err == nil {
		protocol = service.Protocol
		answer, err = e.carryOut(in, service, &call)
	}
	number := e.record(call, failureOf(err))
	if raw, written := answer.(*Raw); written && err == nil {
		maps.Copy(out.Header(), raw.Header)
		out.WriteHeader(raw.Status)
		_, _ = out.Write(raw.Body) // the client may have gone
		return
	}
	protocol.write(out, call, fmt.Sprintf("00000000-0000-0000-0000-%012d", number), answer, failureOf(err))
}

// record keeps the call and answers its number.
func (e *Endpoint) record(call Call, failure *Failure) int {
	call.Failure = failure
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.calls = append(e.calls, call)
	return len(e.calls)
}

// scope finds the parts of a version 4 signature
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html)
// that tell who calls what.
var scope = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/[0-9]{8}/([^/]+)/([^/]+)/aws4_request,`)

// find answers the service that a call is for.
func (e *Endpoint) find(in *http.Request, call *Call) (Service, error) {
	parts := scope.FindStringSubmatch(in.Header.Get("Authorization"))
	if parts == nil {
		return Service{}, Refuse("%s %s: it is not signed with AWS4-HMAC-SHA256", in.Method, in.URL.Path)
	}
	call.Region, call.Service = parts[2], parts[3]
	service, known := e.services[call.Service]
	if !known {
		return Service{}, Refuse("the service %q: it has %q", call.Service, slices.Sorted(maps.Keys(e.services)))
	}
	if parts[1] != e.accessKey {
		// The key is not repeated: it may be somebody's own.
		return Service{}, Fail("AuthFailure", "the call is signed with another access key than %q", e.accessKey)
	}
	return service, nil
}

func (e *Endpoint) carryOut(in *http.Request, service Service, call *Call) (any, error) {
	_, routes := service.Protocol.(REST)
	if !routes && (in.Method != http.MethodPost || in.URL.Path != "/") {
		return nil, Refuse("%s %s of %s: calls are POSTs to /", in.Method, in.URL.Path, service.Name)
	}
	name, err := service.Protocol.action(in, *call)
	if err != nil {
		return nil, err
	}
	call.Action = name
	action, known := service.Actions[name]
	if !known {
		return nil, Refuse("the action %s of %s: it has %s",
			name, service.Name, strings.Join(slices.Sorted(maps.Keys(service.Actions)), ", "))
	}
	return action(in.Context(), service.Protocol, *call)
}
