package ebsdirect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// authorization are the parts of a version 4 signature
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html).
var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/[0-9]{8}/([^/]+)/([^/]+)/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=[0-9a-f]{64}$`)

// signedAlways are the headers that a signature must cover: those of the checksums (UG,
// ebsapis-using-checksums.html), the host and all that begin with X-Amz
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html).
func signedAlways(header http.Header) []string {
	names := []string{"host"}
	for name := range header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-") {
			names = append(names, name)
		}
	}
	return names
}

// unsigned replaces the hash of a body that is not signed (model: v4-unsigned-body). Only
// PutSnapshotBlock has it. botocore signs also this body when it does not use TLS.
const unsigned = "UNSIGNED-PAYLOAD"

// skewMost is how far the time of a signature may be from the service's
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html).
const skewMost = 15 * time.Minute

// forged is an error about a signature (API, CommonErrors).
func forged(code, format string, args ...any) *Failure {
	status := http.StatusForbidden
	if code == "IncompleteSignature" || code == "RequestExpired" {
		status = http.StatusBadRequest
	}
	return &Failure{status, code, fmt.Sprintf(format, args...), ""}
}

// signed checks a call's signature. It signs the same headers again with the caller's
// secret and compares.
func (d *Double) signed(in *http.Request, body []byte) *Failure {
	text := in.Header.Get("Authorization")
	parts := authorization.FindStringSubmatch(text)
	if parts == nil {
		return forged("IncompleteSignature", "the call has no signature of version 4")
	}
	at, err := time.Parse("20060102T150405Z", in.Header.Get("X-Amz-Date"))
	named := strings.Split(parts[4], ";")
	switch {
	case parts[1] != d.AccessKey:
		return forged("InvalidClientTokenId", "the access key %s does not exist", parts[1])
	case parts[2] != d.Region || parts[3] != "ebs":
		return forged("InvalidSignatureException", "the call is signed for %s in %s, not for ebs in %s", parts[3], parts[2], d.Region)
	case err != nil:
		return forged("IncompleteSignature", "the header X-Amz-Date: %v", err)
	case time.Since(at).Abs() > skewMost:
		return forged("RequestExpired", "the signature is of %s", at)
	}
	for _, name := range signedAlways(in.Header) {
		if !slices.Contains(named, name) {
			return forged("IncompleteSignature", "the header %s is not signed", name)
		}
	}
	said := in.Header.Get("X-Amz-Content-Sha256")
	if said == unsigned && in.Method == http.MethodPut {
		return d.signedAgain(in, named, unsigned, at)
	}
	sum := sha256.Sum256(body)
	payload := hex.EncodeToString(sum[:])
	if said != "" && said != payload {
		return forged("InvalidSignatureException", "X-Amz-Content-Sha256 is %q, which is not that of the body", said)
	}
	return d.signedAgain(in, named, payload, at)
}

func (d *Double) signedAgain(in *http.Request, named []string, payload string, at time.Time) *Failure {
	again, err := http.NewRequestWithContext(in.Context(), in.Method, "http://"+in.Host+in.URL.RequestURI(), nil)
	if err != nil {
		return forged("IncompleteSignature", "the call: %v", err)
	}
	for _, name := range named {
		switch name {
		case "host":
		case "content-length":
			again.ContentLength = in.ContentLength
		default:
			again.Header[http.CanonicalHeaderKey(name)] = in.Header.Values(name)
		}
	}
	who := aws.Credentials{AccessKeyID: d.AccessKey, SecretAccessKey: d.Secret, SessionToken: in.Header.Get("X-Amz-Security-Token")}
	err = v4.NewSigner().SignHTTP(context.Background(), who, again, payload, "ebs", d.Region, at)
	if err != nil || again.Header.Get("Authorization") != in.Header.Get("Authorization") {
		return forged("InvalidSignatureException", "The request signature we calculated does not match the signature you provided.")
	}
	return nil
}
