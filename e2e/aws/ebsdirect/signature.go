package ebsdirect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	return failing(status, code, "", format, args...)
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

// The states of KMS keys that EBS cannot use
// (https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html). Gone is a
// key that does not exist.
const (
	Disabled        = "Disabled"
	PendingDeletion = "PendingDeletion"
	Gone            = "Gone"
)

// forReading and forWriting are the permissions for a key that EBS needs (UG,
// ebsapi-faq.html and ebsapi-permissions.html).
var (
	forReading = []string{"kms:Decrypt"}
	forWriting = []string{
		"kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext",
		"kms:ReEncryptFrom", "kms:ReEncryptTo",
	}
)

// WritingActions are the permissions for a key that EBS needs to write a snapshot.
func WritingActions() []string { return slices.Clone(forWriting) }

// viaEC2 are the condition keys of a call that EBS makes to KMS for the caller
// (https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html).
func (d *Double) viaEC2() map[string][]string {
	return map[string][]string{"kms:viaservice": {"ec2." + d.Region + ".amazonaws.com"}, "kms:grantisforawsresource": {"true"}}
}

// use returns the failure for a key that the caller may not use. Which reason AWS has
// for which state of a key is not documented.
func (d *Double) use(key string, actions []string) *Failure {
	parts := keyARN.FindStringSubmatch(key)
	switch {
	case parts == nil:
		return invalid("INVALID_CUSTOMER_KEY", "%q is not the ARN of a key", key)
	case parts[1] != d.Region: // UG, ebs-encryption.html: a key of the same Region
		return invalid("INVALID_CUSTOMER_KEY", "the key %s is not in %s", key, d.Region)
	case d.KeyStates[key] == Gone:
		return missing("DEPENDENCY_RESOURCE_NOT_FOUND", "the key %s does not exist", key)
	case d.KeyStates[key] != "":
		return invalid("INVALID_CUSTOMER_KEY", "the state of the key %s is %s", key, d.KeyStates[key])
	case key != d.DefaultKey && !slices.Contains(d.Keys, key):
		return denied("DEPENDENCY_ACCESS_DENIED", "the caller may not use the key %s", key)
	}
	for _, action := range actions {
		if !d.may(action, key, d.viaEC2()) {
			return denied("DEPENDENCY_ACCESS_DENIED", "the caller may not call %s for the key %s", action, key)
		}
	}
	return nil
}

func (d *Double) may(action, resource string, keys map[string][]string) bool {
	return d.Allowed == nil || d.Allowed(action, resource, keys)
}

// authorize checks the caller's permission for a call about a snapshot. The ARN has no
// account (https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticblockstore.html).
func (d *Double) authorize(action, id string) *Failure {
	partition := "aws"
	if strings.HasPrefix(d.Region, "cn-") {
		partition = "aws-cn"
	}
	resource := "arn:" + partition + ":ec2:" + d.Region + "::snapshot/" + id
	if !d.may(action, resource, nil) {
		return denied("", "User: arn:%s:iam::%s:user/double is not authorized to perform: %s on resource: %s because no identity-based policy allows the %[3]s action",
			partition, d.Account, action, resource)
	}
	return nil
}

// Quotas are the numbers of calls that an account may make each second (quotas), and
// the number of pending snapshots. 0 means no limit.
type Quotas struct {
	Put, Get, List, Start, Complete int
	// PutEach and GetEach are the numbers for one snapshot. They limit nothing if Put or
	// Get is 0.
	PutEach, GetEach int
	Pending          int
	// Concurrent is the number of calls at the same time. AWS does not publish the
	// number behind ConcurrentLimitExceededException.
	Concurrent int
}

// Default are the quotas of a new account.
func Default() Quotas {
	return Quotas{Put: 1000, Get: 1000, PutEach: 1000, GetEach: 1000, List: 50, Start: 10, Complete: 10, Pending: 100}
}

// Line is a network connection with a delay for each call and a rate for the bytes of
// all calls, in bytes each second. 0 is no delay, or no limit.
type Line struct {
	Delay time.Duration
	Rate  int64
}

// line is when the bytes so far have arrived.
type line struct {
	mutex sync.Mutex
	free  time.Time
}

// wait waits until a call's bytes have passed the line. All calls share the rate.
func (l Line) wait(on *line, bytes int) {
	until := time.Now()
	if l.Rate > 0 && bytes > 0 {
		on.mutex.Lock()
		if on.free.Before(until) {
			on.free = until
		}
		on.free = on.free.Add(time.Duration(float64(bytes) / float64(l.Rate) * float64(time.Second)))
		until = on.free
		on.mutex.Unlock()
	}
	if rest := time.Until(until.Add(l.Delay)); rest > 0 {
		time.Sleep(rest) // the line itself is what is simulated
	}
}

// usage is what is left of each quota.
type usage struct {
	left map[string]float64
	last map[string]time.Time
}

// take uses one call of an action's quotas, or returns the error of a used quota. An
// account has another error than a snapshot (UG, error-retries.html).
func (u *usage) take(q Quotas, action, id string) *Failure {
	account := map[string]int{
		"PutSnapshotBlock": q.Put, "GetSnapshotBlock": q.Get, "ListSnapshotBlocks": q.List, "ListChangedBlocks": q.List,
		"StartSnapshot": q.Start, "CompleteSnapshot": q.Complete,
	}[action]
	each := map[string]int{"PutSnapshotBlock": q.PutEach, "GetSnapshotBlock": q.GetEach}[action]
	switch {
	case account == 0:
	case !u.one(action+" "+id, each):
		return failing(http.StatusBadRequest, "RequestThrottledException", "RESOURCE_LEVEL_THROTTLE",
			"%s: the quota of calls each second for the snapshot is used up", action)
	case !u.one(action, account):
		return failing(http.StatusBadRequest, "ThrottlingException", "", "%s: Rate exceeded", action)
	}
	return nil
}

// one takes one call. A quota fills up at its rate, and holds the calls of one second.
func (u *usage) one(of string, limit int) bool {
	if limit == 0 {
		return true
	}
	if u.left == nil {
		u.left, u.last = map[string]float64{}, map[string]time.Time{}
	}
	now := time.Now()
	left := float64(limit)
	if last, known := u.last[of]; known {
		left = min(left, u.left[of]+now.Sub(last).Seconds()*float64(limit))
	}
	u.last[of], u.left[of] = now, left
	if left < 1 {
		return false
	}
	u.left[of]--
	return true
}
