package endpoint

import (
	"context"
	"fmt"
	"net/http"
)

// Call is one API call.
type Call struct {
	// Service and Region are those of the call's signature, such as "ec2" and
	// "us-east-1".
	Service, Region string
	// Action is what is to be done, such as "RunInstances".
	Action string
	// Body is the request's, in the service's protocol.
	Body string
	// Failure is why the call failed, nil for one that was answered.
	Failure *Failure
	// Request is what came, its body read; nil for what is no request.
	Request *http.Request
}

// String is the call in one line, for logs.
func (c Call) String() string {
	if c.Failure != nil {
		return fmt.Sprintf("%s:%s %s: %v", c.Service, c.Action, c.Region, c.Failure)
	}
	return fmt.Sprintf("%s:%s %s", c.Service, c.Action, c.Region)
}

// Action carries out one action of a service and answers the response, which
// the service's protocol writes, or a Raw one.
type Action func(ctx context.Context, protocol Protocol, call Call) (any, error)

// Raw is a response that somebody else has written.
type Raw struct {
	Status int
	Header http.Header
	Body   []byte
}

// Handle makes an Action of a function over typed parameters. A parameter that
// In does not have is refused.
func Handle[In, Out any](carryOut func(ctx context.Context, call Call, in In) (Out, error)) Action {
	return func(ctx context.Context, protocol Protocol, call Call) (any, error) {
		var in In
		if err := protocol.decode(call, &in); err != nil {
			return nil, err
		}
		return carryOut(ctx, call, in)
	}
}

// Service is one service of AWS, or as much of it as a double has.
type Service struct {
	// Name is what signatures call it: "ec2", "sts".
	Name     string
	Protocol Protocol
	Actions  map[string]Action
}
