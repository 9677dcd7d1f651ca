package ebsdirect

import (
	_ "embed"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// signed checks the access key, region and service of a call (API, CommonErrors). The signature itself
// comes from the SDK, and is not checked.
func (d *Double) signed(in *http.Request) *Failure {
	key, region, service, signed := endpoint.Scope(in)
	switch {
	case !signed:
		return failing(http.StatusBadRequest, "IncompleteSignature", "", "the call has no signature of version 4")
	case key != d.AccessKey:
		// The error does not repeat the key: it may be a developer's own.
		return failing(http.StatusForbidden, "InvalidClientTokenId", "", "the access key does not exist")
	case region != d.Region || service != "ebs":
		return failing(http.StatusForbidden, "InvalidSignatureException", "",
			"the call is signed for %s in %s, not for ebs in %s", service, region, d.Region)
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
		"kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey",
		"kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo",
	}
)

// WritingActions are the permissions for a key that EBS needs to write a snapshot.
func WritingActions() []string { return slices.Clone(forWriting) }

// viaEC2 are the condition keys of a call that EBS makes to KMS for the caller
// (https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html).
func (d *Double) viaEC2() map[string][]string {
	return map[string][]string{
		"kms:viaservice": {"ec2." + d.Region + ".amazonaws.com"}, "kms:grantisforawsresource": {"true"},
	}
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
		return denied("", "User: arn:%s:iam::%s:user/double is not authorized to perform: %s on resource: %s "+
			"because no identity-based policy allows the %[3]s action",
			partition, d.Account, action, resource)
	}
	return nil
}

//go:embed rules.yaml
var rulesFile []byte

// rules are those of parameters.
var rules = sync.OnceValue(func() endpoint.Rules { return endpoint.ReadRules(rulesFile) })

// The forms of parameters in rules.yaml and in the API's model.
var (
	snapshotID = regexp.MustCompile(`^snap-([0-9a-f]{8}|[0-9a-f]{17})$`)
	tokenForm  = regexp.MustCompile(`^[A-Za-z0-9+/=]{1,256}$`)
	sumForm    = regexp.MustCompile(`^[A-Za-z0-9+/=]{1,64}$`)
	keyARN     = regexp.MustCompile(`^arn:aws[a-z-]*:kms:([^:]*):([0-9]{12}):key/.+$`)
)

func wellFormed(id string) bool { return snapshotID.MatchString(id) }

// known are the query's parameters of each action (model). The real service ignores
// others; a client that sends them is wrong.
var known = map[string]string{
	"ListSnapshotBlocks": "maxResults pageToken startingBlockIndex",
	"ListChangedBlocks":  "firstSnapshotId maxResults pageToken startingBlockIndex",
	"GetSnapshotBlock":   "blockToken",
}

// queried checks the names of the query's parameters.
func queried(action string, query url.Values) *Failure {
	for name, values := range query {
		if !strings.Contains(" "+known[action]+" ", " "+name+" ") || len(values) != 1 {
			return invalid("INVALID_PARAMETER_VALUE", "the parameter %s of %s", name, action)
		}
	}
	return nil
}

// shortened shortens a message to the model's 256 characters.
func shortened(f *Failure) *Failure {
	if one := []rune(f.Message); len(one) > 256 {
		short := *f
		short.Message = string(one[:256])
		return &short
	}
	return f
}

func internal(err error) *Failure {
	return failing(http.StatusInternalServerError, "InternalServerException", "", "%v", err)
}
