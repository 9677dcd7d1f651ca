package awsapi

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// unansweredError is an error of the SDK that is not an answer of AWS, without the SDK's
// own words. AWS may have carried out the call.
type unansweredError struct {
	said string
	err  error
}

func (e *unansweredError) Error() string { return e.said }
func (e *unansweredError) Unwrap() error { return e.err }

// unansweredOf shortens an error of the SDK.
func unansweredOf(err error) error {
	said, attempts, reason := "", 0, err
	for {
		var inner error
		switch e := reason.(type) {
		case *smithy.OperationError:
			inner = e.Err
		case *retry.MaxAttemptsError:
			attempts, inner = e.Attempt, e.Err
		case *awshttp.ResponseError:
			inner = e.ResponseError
		case *smithyhttp.ResponseError:
			inner = e.Err
		case *smithyhttp.RequestSendError:
			said, inner = "no answer", e.Err
		case *smithy.DeserializationError:
			said, inner = "the answer cannot be read", e.Err
		case *smithy.CanceledError:
			inner = e.Err
		case *aws.RequestCanceledError:
			inner = e.Err
		case *url.Error:
			inner = e.Err
		default:
			var operation *smithy.OperationError
			var broken *xml.SyntaxError
			if errors.As(reason, &operation) { // deeper, such as that of a provider of credentials
				inner = operation
			} else if errors.As(reason, &broken) && reason != error(broken) { // a truncated error
				said, inner = "the answer cannot be read", broken
			}
		}
		if inner == nil {
			break
		}
		reason = inner
	}
	if said != "" && attempts > 1 {
		said += fmt.Sprintf(" after %d attempts", attempts)
	}
	return &unansweredError{strings.TrimPrefix(said+": ", ": ") + printable(reason.Error()), err}
}

// requestOf is the ID of the request that an error of the SDK is about, or empty.
func requestOf(err error) string {
	var answer *awshttp.ResponseError
	if !errors.As(err, &answer) {
		return ""
	}
	return printable(answer.ServiceRequestID())
}

// RequestID returns the ID of the request, or nothing.
func (e *APIError) RequestID() string { return e.Request }

// RequestID returns the ID of the request, or nothing.
func (e *DeniedError) RequestID() string { return e.Request }

// EndedError says that an instance has ended, and EC2 no longer has its settings.
type EndedError struct {
	Doing string
	// State is terminated or shutting-down. Reason may be empty.
	State, Reason string
}

func (e *EndedError) Error() string {
	text := fmt.Sprintf("%s: the instance is %s, and EC2 no longer has its settings", e.Doing, e.State)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// ended returns an error for an instance that has lost its network and role.
func ended(doing string, in types.Instance) error {
	state, reason := stateOf(in)
	if !slices.Contains([]string{string(types.InstanceStateNameShuttingDown), string(types.InstanceStateNameTerminated)}, state) {
		return nil
	}
	return &EndedError{doing, state, reason}
}

// stateOf is the state of an instance and the reason for the state, such as
// Client.InternalError: Client error on launch.
func stateOf(in types.Instance) (state, reason string) {
	if in.State != nil {
		state = string(in.State.Name)
	}
	if r := in.StateReason; r != nil {
		code, message := aws.ToString(r.Code), aws.ToString(r.Message)
		reason = message
		if !strings.HasPrefix(message, code) {
			reason = strings.TrimSuffix(code+": "+message, ": ")
		}
	}
	return state, reason
}
