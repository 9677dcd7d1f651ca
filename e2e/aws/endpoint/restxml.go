package endpoint

import "net/http"

// RESTXML is the protocol of Route 53
// (https://smithy.io/2.0/aws/protocols/aws-restxml-protocol.html): REST with
// XML responses.
type RESTXML struct{ REST }

func (RESTXML) write(out http.ResponseWriter, call Call, requestID string, answer any, failure *Failure) {
	Query{}.write(out, call, requestID, answer, failure)
}
