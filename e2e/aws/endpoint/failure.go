package endpoint

import (
	"errors"
	"fmt"
	"net/http"
)

// Refused is the code of a Failure that AWS would not return: the double does
// not support the call.
const Refused = "NotInTheDouble"

// doubleFailed is the code for an error inside the double.
const doubleFailed = "DoubleFailed"

// Failure is an error that the client receives.
type Failure struct {
	Code    string // documented by AWS, or Refused
	Message string
	Status  int // HTTP status
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
	var failure *Failure
	if errors.As(err, &failure) {
		return failure
	}
	return &Failure{Code: doubleFailed, Message: err.Error(), Status: http.StatusBadRequest}
}
