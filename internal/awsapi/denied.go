package awsapi

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/service/ebs"
	ebstypes "github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
)

// DeniedError names a missing permission, for the person who grants permissions.
type DeniedError struct {
	// Permission is an IAM action such as eks:DescribeCluster, or "to use the KMS key".
	Permission string
	// Said is AWS's own message, which names the caller.
	Said string
	// Hint is what to do, or empty.
	Hint string
	// Request is the ID of the request, or empty.
	Request string
}

func (e *DeniedError) Error() string {
	return hinted(fmt.Sprintf("the permission %s is missing: %s", e.Permission, e.Said), e.Hint)
}

func hinted(text, hint string) string {
	if hint == "" {
		return text
	}
	return strings.TrimRight(text, ".") + "; " + hint
}

// denials are the services' error codes for a missing permission.
var denials = []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedException",
	"Client.UnauthorizedOperation"}

// explain adds the operation to an error and, after a denial, the permission.
// Service and operation come from the error itself, so that they cannot be wrong.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	if unreached := unreachedOf(err); unreached != nil {
		return fmt.Errorf("%s: %w", doing, unreached)
	}
	if stranger := strangerOf(err); stranger != nil {
		return fmt.Errorf("%s: %w", doing, stranger)
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return fmt.Errorf("%s: %w", doing, unansweredOf(err))
	}
	failure := &APIError{Code: api.ErrorCode(), Said: printable(api.ErrorMessage()), Reason: reasonOf(err),
		Request: requestOf(err)}
	var operation *smithy.OperationError
	errors.As(err, &operation)
	if slices.Contains(denials, api.ErrorCode()) && operation != nil {
		return fmt.Errorf("%s: %w", doing, denied(operation, failure))
	}
	failure.Hint = hintOf(failure, operation)
	return fmt.Errorf("%s: %w", doing, failure)
}

// reasonOf is the reason of an error of the EBS direct APIs, or empty.
func reasonOf(err error) string {
	var invalid *ebstypes.ValidationException
	var missing *ebstypes.ResourceNotFoundException
	var denied *ebstypes.AccessDeniedException
	switch {
	case errors.As(err, &invalid):
		return string(invalid.Reason)
	case errors.As(err, &missing):
		return string(missing.Reason)
	case errors.As(err, &denied):
		return string(denied.Reason)
	}
	return ""
}

// saidMost is the number of characters of a message that an error shows. EC2's encoded
// message about a missing permission has some thousand.
const saidMost = 8000

// printable makes AWS's message fit for a terminal.
func printable(said string) string {
	said = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, said))
	if runes := []rune(said); len(runes) > saidMost {
		return string(runes[:saidMost]) + " …"
	}
	return said
}

// named is the permission that a message names. It is not always that of the call: a
// call with tags also needs ec2:CreateTags, and one with a key permissions for KMS.
var named = regexp.MustCompile(`not authorized to perform: ([a-z0-9-]+:[A-Za-z0-9*]+)`)

// denied is the error for a missing permission. EBS reports with a reason that KMS
// denied a call, or that a snapshot belongs to another account.
func denied(operation *smithy.OperationError, api *APIError) error {
	// IAM names the service "Auto Scaling" autoscaling.
	d := &DeniedError{Permission: strings.ToLower(strings.ReplaceAll(operation.Service(), " ", "")) + ":" +
		operation.Operation(), Said: api.Said, Request: api.Request}
	found := named.FindStringSubmatch(api.Said)
	switch {
	case found != nil:
		d.Permission = found[1]
	case api.Reason == string(ebstypes.AccessDeniedExceptionReasonDependencyAccessDenied):
		d.Permission = "to use the KMS key"
	case api.Reason == string(ebstypes.AccessDeniedExceptionReasonUnauthorizedAccount):
		api.Hint = "copy the snapshot of the other account with `aws ec2 copy-snapshot`"
		return api
	}
	if strings.HasPrefix(d.Permission, "kms:") || found == nil && api.Reason != "" {
		actions := slices.Concat(policies().Actions["encrypt"], []string{"kms:CreateGrant", "kms:DescribeKey"})
		if name := operation.Operation(); strings.HasPrefix(name, "Get") || strings.HasPrefix(name, "List") {
			actions = []string{"kms:Decrypt"}
		}
		d.Hint = "allow " + strings.Join(actions, ", ") +
			" for the key, in a policy of the caller and in the policy of the key"
	}
	return d
}

// APIError is an error that AWS returned.
type APIError struct {
	Code, Said string
	// Reason is a code with more detail, or empty. Only the EBS direct APIs have it.
	Reason string
	// Hint is what to do, or empty.
	Hint string
	// Request is the ID of the request, or empty.
	Request string
}

func (e *APIError) Error() string {
	text := e.Code
	if e.Said != "" {
		text += ": " + e.Said
	}
	return hinted(text, e.Hint)
}

const goodKey = "the KMS key must be an enabled symmetric key in the same region, given by its ARN"

// hints are what to do after errors of EC2 and EBS, by the code or the reason.
var hints = map[string]string{
	"INVALID_CUSTOMER_KEY":          goodKey,
	"DEPENDENCY_RESOURCE_NOT_FOUND": goodKey,
	"INVALID_VOLUME_SIZE":           "a snapshot has 1 to 65536 GiB, and at least the size of its parent",
	"INVALID_TAG": "a snapshot has up to 50 tags, keys with up to 127 characters and values with " +
		"up to 255; the prefix aws: is reserved",
	"INVALID_BLOCK_TOKEN":      "the list of blocks has expired, or a new list replaced it; run the command again",
	"INVALID_PAGE_TOKEN":       "the list of blocks has expired; run the command again",
	"WRITE_REQUEST_TIMEOUT":    "a block did not arrive in time; check the connection, and run the command again",
	"OptInRequired":            "enable the region for the account",
	"InvalidAMIName.Duplicate": "choose another name, or deregister that AMI",
	"ResourceLimitExceeded": "a quota is used up; wait until other copies are completed, or request more in " +
		"Service Quotas",
	"ServiceQuotaExceededException": "a quota of EBS is used up; Service Quotas lists the quotas of the " +
		"EBS direct APIs",
}

// pendingQuota is the hint when StartSnapshot says that a quota is used up: the one of
// 100 pending snapshots (https://docs.aws.amazon.com/general/latest/gr/ebs-service.html).
const pendingQuota = "the region has too many pending snapshots; wait until they are completed, or delete those of " +
	"failed uploads, which `aws ec2 describe-snapshots --owner-ids self --filters Name=status,Values=pending` lists"

// busy is the hint when all attempts met too many calls.
const busy = "other calls of the account use up the same quota; run the command again later"

// busyCodes are the codes for too many calls.
var busyCodes = []string{"ThrottlingException", "RequestThrottledException", "ConcurrentLimitExceededException"}

func hintOf(e *APIError, operation *smithy.OperationError) string {
	switch {
	case operation == nil || operation.Service() != ebs.ServiceID && operation.Service() != ec2.ServiceID:
		return ""
	case e.Code == "ServiceQuotaExceededException" && operation.Operation() == "StartSnapshot":
		return pendingQuota
	case operation.Service() == ebs.ServiceID && slices.Contains(busyCodes, e.Code):
		return busy
	}
	return cmp.Or(hints[e.Reason], hints[e.Code])
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
	"ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure",
	"SignatureDoesNotMatch", "InvalidSignatureException", "RequestExpired", "IncompleteSignature",
}

// IsUnknownCaller says that AWS refuses the credentials, so another call would fail
// too.
func IsUnknownCaller(err error) bool { return hasCode(err, unknownCallers...) }
