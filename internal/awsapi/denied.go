package awsapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// DeniedError says which permission is missing. People give it to whoever
// grants permissions.
type DeniedError struct {
	// Permission is an action of IAM such as eks:DescribeCluster.
	Permission string
	// Said is AWS's own message, which names who asked.
	Said string
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("the permission %s is missing: %s", e.Permission, e.Said)
}

// denials are how the services call a missing permission.
var denials = []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedException", "Client.UnauthorizedOperation"}

// explain names the doing and, where it is what failed, the permission. Service
// and operation come from the error itself, so that they cannot be mistaken.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	var operation *smithy.OperationError
	if slices.Contains(denials, api.ErrorCode()) && errors.As(err, &operation) {
		return fmt.Errorf("%s: %w", doing, &DeniedError{
			// IAM knows the service "Auto Scaling" as autoscaling.
			Permission: strings.ToLower(strings.ReplaceAll(operation.Service(), " ", "")) + ":" + operation.Operation(),
			Said:       strings.TrimSpace(api.ErrorMessage()),
		})
	}
	return fmt.Errorf("%s: %w", doing, &APIError{Code: api.ErrorCode(), Said: strings.TrimSpace(api.ErrorMessage())})
}

// APIError is an answer that is an error.
type APIError struct{ Code, Said string }

func (e *APIError) Error() string {
	if e.Said == "" {
		return e.Code
	}
	return e.Code + ": " + e.Said
}

// IsNotFound says that AWS knows nothing of that name.
func IsNotFound(err error) bool {
	var api *APIError
	if !errors.As(err, &api) {
		return false
	}
	return strings.Contains(api.Code, "NotFound") || api.Code == "NoSuchEntity"
}

// IsUnanswered says that a call got no answer at all: a network or an address is
// wrong, and another call would fare no better.
func IsUnanswered(err error) bool {
	var unsent *smithyhttp.RequestSendError
	return errors.As(err, &unsent)
}

// errIncomplete is for answers without what they must have.
func errIncomplete(doing, missing string) error {
	return fmt.Errorf("%s: the answer has no %s", doing, missing)
}

// unknownCallers are how the services call credentials that are none, or not any
// more.
var unknownCallers = []string{
	"ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure", "SignatureDoesNotMatch",
	"InvalidSignatureException", "RequestExpired", "IncompleteSignature",
}

// IsUnknownCaller says that AWS does not take the credentials: another call would
// fare no better.
func IsUnknownCaller(err error) bool {
	var api *APIError
	return errors.As(err, &api) && slices.Contains(unknownCallers, api.Code)
}
