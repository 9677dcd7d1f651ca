package ebsdirect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// checksums are the headers that carry a checksum, and must be signed (API,
// PutSnapshotBlock).
var checksums = []string{"x-amz-checksum", "x-amz-checksum-algorithm"}

// signed checks a call's signature. It signs the same headers again with the caller's
// secret and compares.
func (d *Double) signed(in *http.Request, body []byte) *Failure {
	text := in.Header.Get("Authorization")
	parts := authorization.FindStringSubmatch(text)
	if parts == nil || parts[1] != d.AccessKey {
		return denied("UNAUTHORIZED_ACCOUNT", "the call is not signed with the access key %s", d.AccessKey)
	}
	if parts[2] != d.Region || parts[3] != "ebs" {
		return denied("UNAUTHORIZED_ACCOUNT", "the call is signed for %s in %s, not for ebs in %s", parts[3], parts[2], d.Region)
	}
	named := strings.Split(parts[4], ";")
	for _, name := range checksums {
		if in.Header.Get(name) != "" && !slices.Contains(named, name) {
			return denied("", "the header %s is not signed", name)
		}
	}
	at, err := time.Parse("20060102T150405Z", in.Header.Get("X-Amz-Date"))
	if err != nil {
		return denied("", "the header X-Amz-Date: %v", err)
	}
	again, err := http.NewRequestWithContext(in.Context(), in.Method, "http://"+in.Host+in.URL.RequestURI(), nil)
	if err != nil {
		return denied("", "the call: %v", err)
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
	payload := in.Header.Get("X-Amz-Content-Sha256")
	if payload == "" {
		sum := sha256.Sum256(body)
		payload = hex.EncodeToString(sum[:])
	}
	who := aws.Credentials{AccessKeyID: d.AccessKey, SecretAccessKey: d.Secret}
	if err := v4.NewSigner().SignHTTP(context.Background(), who, again, payload, "ebs", d.Region, at); err != nil || again.Header.Get("Authorization") != text {
		return denied("", "the signature does not match the call")
	}
	return nil
}
