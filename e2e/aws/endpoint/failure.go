package endpoint

import (
	"errors"
	"fmt"
	"net/http"
)

// Refused is the code of a Failure that AWS would not answer: the double does
// not understand the call.
const Refused = "NotInTheDouble"

// doubleFailed is the code for a fault of the double's own.
const doubleFailed = "DoubleFailed"

// Failure is an error that the client receives.
type Failure struct {
	Code    string // as AWS documents it, or Refused
	Message string
	Status  int // of HTTP
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// Fail answers an error that AWS itself would answer: a client's mistake.
func Fail(code, format string, values ...any) error {
	return &Failure{Code: code, Message: fmt.Sprintf(format, values...), Status: http.StatusBadRequest}
}

// Refuse answers the error for what the double does not understand. It carries
// a status that clients do not retry.
func Refuse(format string, values ...any) error {
	return Fail(Refused, "the double does not understand "+format, values...)
}

// failureOf is err as the client receives it. Any other error than a Failure is
// a fault of the double's own, and not worth a retry either.
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
