package endpoint

import (
	"context"
	"fmt"
	"net/http"
)

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
