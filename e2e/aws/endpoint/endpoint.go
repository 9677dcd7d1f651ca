package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Environment sets the SDK's environment to the account and region of all doubles, without
// the workstation's own configuration of AWS. The variables of more come last.
func Environment(t testing.TB, more map[string]string) {
	t.Helper()
	all := map[string]string{
		"AWS_REGION":        "eu-west-1",
		"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_PROFILE": "", "AWS_CA_BUNDLE": "",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_EBS": "",
		"AWS_USE_FIPS_ENDPOINT": "", "AWS_USE_DUALSTACK_ENDPOINT": "", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "",
	}
	maps.Copy(all, more)
	for name, value := range all {
		t.Setenv(name, value)
	}
}

// Endpoint serves the calls of several services. It is an http.Handler.
type Endpoint struct {
	accessKey string
	services  map[string]Service

	mutex sync.Mutex
	calls []Call
}

// New returns an endpoint for clients that sign with the access key.
func New(accessKey string, services ...Service) *Endpoint {
	endpoint := &Endpoint{accessKey: accessKey, services: map[string]Service{}}
	for _, service := range services {
		endpoint.services[service.Name] = service
	}
	return endpoint
}

// Calls returns all calls so far, in the order of their responses.
func (e *Endpoint) Calls() []Call {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return slices.Clone(e.calls)
}

// Count returns the number of calls so far by action.
func (e *Endpoint) Count() map[string]int {
	count := map[string]int{}
	for _, call := range e.Calls() {
		count[call.Service+":"+call.Action]++
	}
	return count
}

// Refusals returns the calls that no double supports. A test with refusals must
// extend the double instead of ignoring them.
func (e *Endpoint) Refusals() []Call {
	return slices.DeleteFunc(e.Calls(), func(call Call) bool {
		return call.Failure == nil || call.Failure.Code != Refused && call.Failure.Code != doubleFailed
	})
}

// ServeHTTP handles one call.
func (e *Endpoint) ServeHTTP(out http.ResponseWriter, in *http.Request) { e.Serve(out, in) }

// Serve handles one call and returns that call.
func (e *Endpoint) Serve(out http.ResponseWriter, in *http.Request) Call {
	body, err := io.ReadAll(in.Body)
	call := Call{Body: string(body), Request: in}
	if err != nil {
		http.Error(out, fmt.Sprintf("reading the call: %v", err), http.StatusBadRequest)
		return call
	}
	protocol := protocolOf(in)
	var answer any
	service, err := e.find(in, &call)
	if err == nil {
		protocol = service.Protocol
		answer, err = e.carryOut(in, service, &call)
	}
	call.Failure = failureOf(err)
	number := e.record(call)
	if raw, written := answer.(*Raw); written && err == nil {
		maps.Copy(out.Header(), raw.Header)
		out.WriteHeader(raw.Status)
		_, _ = out.Write(raw.Body) // the client may have closed the connection
		return call
	}
	protocol.write(out, call, fmt.Sprintf("00000000-0000-0000-0000-%012d", number), answer, call.Failure)
	return call
}

func (e *Endpoint) record(call Call) int {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.calls = append(e.calls, call)
	return len(e.calls)
}

// scope finds the parts of a version 4 signature that name the caller and the
// service
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html).
var scope = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/[0-9]{8}/([^/]+)/([^/]+)/aws4_request,`)

// Scope returns for which access key, region and service a call is signed. It is false for a call
// without a version 4 signature.
func Scope(in *http.Request) (key, region, service string, signed bool) {
	parts := scope.FindStringSubmatch(in.Header.Get("Authorization"))
	if parts == nil {
		return "", "", "", false
	}
	return parts[1], parts[2], parts[3], true
}

func (e *Endpoint) find(in *http.Request, call *Call) (Service, error) {
	key, region, name, signed := Scope(in)
	if !signed {
		return Service{}, Refuse("%s %s: not signed with AWS4-HMAC-SHA256", in.Method, in.URL.Path)
	}
	call.Region, call.Service = region, name
	service, known := e.services[call.Service]
	if !known {
		return Service{}, Refuse("the service %q: supported services are %q", call.Service, slices.Sorted(maps.Keys(e.services)))
	}
	if key != e.accessKey {
		// The error does not repeat the key: it may be a developer's own.
		return Service{}, Fail("AuthFailure", "the call is signed with another access key than %q", e.accessKey)
	}
	return service, nil
}

func (e *Endpoint) carryOut(in *http.Request, service Service, call *Call) (any, error) {
	_, routes := service.Protocol.(interface {
		route(call Call) (string, map[string]string, error)
	})
	if !routes && (in.Method != http.MethodPost || in.URL.Path != "/") {
		return nil, Refuse("%s %s of %s: calls must be POST requests to /", in.Method, in.URL.Path, service.Name)
	}
	name, err := service.Protocol.action(in, *call)
	if err != nil {
		return nil, err
	}
	call.Action = name
	action, known := service.Actions[name]
	if !known {
		return nil, Refuse("the action %s of %s: supported actions are %s",
			name, service.Name, strings.Join(slices.Sorted(maps.Keys(service.Actions)), ", "))
	}
	return action(in.Context(), service.Protocol, *call)
}

// Call is one API call.
type Call struct {
	// Service and Region come from the call's signature, such as "ec2" and
	// "us-east-1".
	Service, Region string
	// Action is the API action, such as "RunInstances".
	Action string
	// Body is the request's body, in the service's protocol.
	Body string
	// Failure is the error that the caller got, nil for a successful call.
	Failure *Failure
	// Request is the HTTP request, with its body already read. It is nil for a call
	// that did not come over HTTP.
	Request *http.Request
}

// String returns the call in one line, for logs.
func (c Call) String() string {
	if c.Failure != nil {
		return fmt.Sprintf("%s:%s %s: %v", c.Service, c.Action, c.Region, c.Failure)
	}
	return fmt.Sprintf("%s:%s %s", c.Service, c.Action, c.Region)
}

// Action carries out one action of a service. It returns the response, which
// the service's protocol writes, or a Raw response.
type Action func(ctx context.Context, protocol Protocol, call Call) (any, error)

// Raw is a response that is already in the service's protocol.
type Raw struct {
	Status int
	Header http.Header
	Body   []byte
}

// Handle turns a function with typed parameters into an Action. A parameter
// without a field in In is refused.
func Handle[In, Out any](carryOut func(ctx context.Context, call Call, in In) (Out, error)) Action {
	return func(ctx context.Context, protocol Protocol, call Call) (any, error) {
		var in In
		if err := protocol.decode(call, &in); err != nil {
			return nil, err
		}
		return carryOut(ctx, call, in)
	}
}

// Service is one service of AWS, with the actions that the double supports.
type Service struct {
	// Name is the service's name in signatures: "ec2", "sts".
	Name     string
	Protocol Protocol
	Actions  map[string]Action
}

// Refused is the code of a Failure that AWS would not return: the double does
// not support the call.
const Refused = "NotInTheDouble"

// doubleFailed is the code for an error inside the double.
const doubleFailed = "DoubleFailed"

// Failure is an error that the client receives. Only the EBS direct APIs write it as JSON, with
// a reason.
type Failure struct {
	Status  int    `json:"-"` // of HTTP
	Code    string `json:"-"` // documented by AWS, or Refused
	Message string
	Reason  string `json:",omitempty"`
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// Fail returns an error that AWS itself would return for a client's mistake.
func Fail(code, format string, values ...any) error {
	return &Failure{Code: code, Message: fmt.Sprintf(format, values...), Status: http.StatusBadRequest}
}

// Refuse returns the error for a call that the double does not support. Clients
// do not retry its status.
func Refuse(format string, values ...any) error {
	return Fail(Refused, "the double does not understand "+format, values...)
}

// failureOf returns err in the form for the client. Any error but a Failure is
// an error inside the double, and clients do not retry it either.
func failureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	if failure, ok := errors.AsType[*Failure](err); ok {
		return failure
	}
	return &Failure{Code: doubleFailed, Message: err.Error(), Status: http.StatusBadRequest}
}
