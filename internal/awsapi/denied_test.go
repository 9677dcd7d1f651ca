package awsapi

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	ebstypes "github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
)

// FuzzExplain explains errors with any code, reason and message: the text is printable
// and bounded.
func FuzzExplain(f *testing.F) {
	for _, seed := range [][3]string{
		{"AccessDeniedException", "DEPENDENCY_ACCESS_DENIED", "User: x is not authorized to perform: kms:CreateGrant on resource: y"},
		{"AccessDeniedException", "UNAUTHORIZED_ACCOUNT", "no"}, {"AccessDeniedException", "", ""},
		{"UnauthorizedOperation", "", "You are not authorized to perform this operation. Encoded authorization failure message: AAAA"},
		{"ValidationException", "INVALID_CUSTOMER_KEY", "a\x1b[31mb\n"}, {"ServiceQuotaExceededException", "DEPENDENCY_SERVICE_QUOTA_EXCEEDED", "."},
		{"ThrottlingException", "", "\xff"}, {"ResourceNotFoundException", "DEPENDENCY_RESOURCE_NOT_FOUND", "\u202e"},
	} {
		for n := range 3 {
			f.Add("EBS", "StartSnapshot", n, seed[0], seed[1], seed[2])
		}
	}
	f.Add("EC2", "RegisterImage", 3, "InvalidAMIName.Duplicate", "", "AMI name x is already in use")
	f.Fuzz(func(t *testing.T, service, operation string, kind int, code, reason, message string) {
		if len(service)+len(operation)+len(code) > 1000 {
			return
		}
		var failure error = &smithy.GenericAPIError{Code: code, Message: message}
		switch kind {
		case 0:
			failure = &ebstypes.AccessDeniedException{Message: &message, Reason: ebstypes.AccessDeniedExceptionReason(reason)}
		case 1:
			failure = &ebstypes.ValidationException{Message: &message, Reason: ebstypes.ValidationExceptionReason(reason), ErrorCodeOverride: aws.String(code)}
		case 2:
			failure = &ebstypes.ResourceNotFoundException{Message: &message, Reason: ebstypes.ResourceNotFoundExceptionReason(reason)}
		}
		text := explain("doing", &smithy.OperationError{ServiceID: service, OperationName: operation, Err: failure}).Error()
		assert.LessOrEqual(t, utf8.RuneCountInString(text), saidMost+4000)
		for _, r := range text[len("doing: "):] {
			assert.True(t, unicode.IsPrint(r), "%q", text)
		}
	})
}
