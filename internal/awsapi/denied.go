package awsapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	ebstypes "github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/aws/smithy-go"
)

// DeniedError names a missing permission, for the person who grants permissions.
type DeniedError struct {
	// Permission is an IAM action such as eks:DescribeCluster.
	Permission string
	// Said is AWS's own message, which names the caller.
	Said string
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("the permission %s is missing: %s", e.Permission, e.Said)
}

// denials are the services' error codes for a missing permission.
var denials = []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedException", "Client.UnauthorizedOperation"}

// explain adds the operation to an error and, after a denial, the permission.
// Service and operation come from the error itself, so that they cannot be wrong.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	if unreached := unreachedOf(err); unreached != nil {
		return fmt.Errorf("%s: %w", doing, unreached)
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	var operation *smithy.OperationError
	if slices.Contains(denials, api.ErrorCode()) && errors.As(err, &operation) {
		return fmt.Errorf("%s: %w", doing, &DeniedError{
			// IAM names the service "Auto Scaling" autoscaling.
			Permission: strings.ToLower(strings.ReplaceAll(operation.Service(), " ", "")) + ":" + operation.Operation(),
			Said:       strings.TrimSpace(api.ErrorMessage()),
		})
	}
	if stranger := strangerOf(err, api.ErrorCode()); stranger != nil {
		return fmt.Errorf("%s: %w", doing, stranger)
	}
	var invalid *ebstypes.ValidationException
	failure := &APIError{Code: api.ErrorCode(), Said: strings.TrimSpace(api.ErrorMessage())}
	if errors.As(err, &invalid) {
		failure.Reason = string(invalid.Reason)
	}
	return fmt.Errorf("%s: %w", doing, failure)
}

// APIError is an error that AWS returned.
type APIError struct {
	Code, Said string
	// Reason is a code with more detail, or empty. Only the EBS direct APIs have it.
	Reason string
}

func (e *APIError) Error() string {
	if e.Said == "" {
		return e.Code
	}
	return e.Code + ": " + e.Said
}

// IsNotFound says that AWS has no resource of that name.
func IsNotFound(err error) bool {
	var api *APIError
	if !errors.As(err, &api) {
		return false
	}
	return strings.Contains(api.Code, "NotFound") || api.Code == "NoSuchEntity"
}

// errIncomplete is an answer without a required part.
func errIncomplete(doing, missing string) error {
	return fmt.Errorf("%s: the answer has no %s", doing, missing)
}

// unknownCallers are the services' error codes for invalid or expired credentials.
var unknownCallers = []string{
	"ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure", "SignatureDoesNotMatch",
	"InvalidSignatureException", "RequestExpired", "IncompleteSignature",
}

// IsUnknownCaller says that AWS refuses the credentials, so another call would fail
// too.
func IsUnknownCaller(err error) bool {
	var api *APIError
	return errors.As(err, &api) && slices.Contains(unknownCallers, api.Code)
}
