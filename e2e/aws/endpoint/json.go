package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// target is the header that names the action in JSON, such as
// "AmazonSSM.GetParameter".
const target = "X-Amz-Target"

// JSON is the protocol of SSM
// (https://smithy.io/2.0/aws/protocols/aws-json-1_1-protocol.html).
type JSON struct{}

func (JSON) action(in *http.Request, _ Call) (string, error) {
	_, name, found := strings.Cut(in.Header.Get(target), ".")
	if !found {
		return "", Refuse("a call without %s", target)
	}
	return name, nil
}

func (JSON) decode(call Call, into any) error {
	decoder := json.NewDecoder(strings.NewReader(call.Body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return Refuse("the parameters of %s: %v", call.Action, err)
	}
	return nil
}

func (JSON) write(out http.ResponseWriter, _ Call, requestID string, answer any, failure *Failure) {
	status := http.StatusOK
	if failure != nil {
		status = failure.Status
		answer = map[string]string{"__type": failure.Code, "message": failure.Message}
	}
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(out, fmt.Sprintf("writing the answer: %v", err), http.StatusInternalServerError)
		return
	}
	out.Header().Set("X-Amzn-Requestid", requestID)
	writeBody(out, status, "application/x-amz-json-1.1", bytes.NewReader(text))
}

// writeBody sends a response. It ignores write errors: they mean that the
// client closed the connection.
func writeBody(out http.ResponseWriter, status int, contentType string, body io.Reader) {
	out.Header().Set("Content-Type", contentType)
	out.WriteHeader(status)
	_, _ = io.Copy(out, body)
}
