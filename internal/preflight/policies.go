package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// keysOf reads the KMS keys of the disks of nodes that are started later.
func (f *facts) keysOf(ctx context.Context, a *awsapi.AWS) fact[[]awsapi.Key] {
	switch {
	case f.target.Instance != "":
		return fact[[]awsapi.Key]{absent: true} // EC2 has used them
	case f.launch.err != nil || f.image.err != nil || f.account.err != nil:
		return fact[[]awsapi.Key]{err: cmp.Or(f.launch.err, f.image.err, f.account.err)}
	}
	names, err := f.keyNames(ctx, a)
	if err != nil {
		return fact[[]awsapi.Key]{err: err}
	}
	return all(names, func(name string) (awsapi.Key, error) {
		k, err := a.Key(ctx, name, f.account.value)
		of := awsnames.Split(name).Account
		if err != nil && strings.HasPrefix(name, "arn:") && of != f.account.value { // another account's key
			return awsapi.Key{ARN: name, Account: of, State: "unknown"}, nil
		}
		return k, err
	})
}

// keyNames are the names of the keys: those of the image's snapshots, of the
// template's disks, and the default key of EBS for the other disks.
func (f *facts) keyNames(ctx context.Context, a *awsapi.AWS) ([]string, error) {
	var names []string
	if i := f.image.value; i.Encrypted {
		keys, err := a.SnapshotKeys(ctx, i.Snapshots)
		if err != nil && i.Owner == f.account.value {
			return nil, err
		}
		names = keys // another account's snapshots may be hidden
	}
	for _, d := range f.launch.value.Devices {
		if d.Key != "" {
			names = append(names, d.Key)
		}
	}
	if c := f.target.NodeClass; c != nil {
		names = append(names, c.keys()...)
	}
	_, byDefault, err := a.DefaultEncryption(ctx)
	if err != nil {
		return nil, err
	}
	if byDefault != "" && len(names) == 0 {
		names = append(names, byDefault)
	}
	return unique(names), nil
}

func checkKeys(f *facts) *result {
	var seen []string
	var doubt *result
	for _, k := range f.keys.value {
		r := f.usable(k)
		switch r.verdict {
		case Fail:
			return r
		case Warn:
			doubt = r
		}
		seen = append(seen, r.evidence)
	}
	return cmp.Or(doubt, good("%s", cmp.Or(strings.Join(seen, ", "), "no disk has a KMS key")))
}

// usable checks one key
// (https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html).
func (f *facts) usable(k awsapi.Key) *result {
	foreign := k.Account != f.account.value
	role := f.scalingRole()
	switch {
	case k.State == "unknown":
		return maybe("aws kms describe-key --key-id "+k.ARN, "the account %s has the key %s, and your account may not "+
			"see the key", k.Account, k.ARN)
	case k.State == "PendingDeletion":
		return bad("aws kms cancel-key-deletion --key-id "+k.ARN+" && aws kms enable-key --key-id "+k.ARN,
			"the key %s will be deleted: EC2 starts no instance with its disks", k.ARN)
	case k.State == "Disabled":
		return bad("aws kms enable-key --key-id "+k.ARN, "the key %s is disabled: EC2 starts no instance with "+
			"its disks", k.ARN)
	case k.State != "Enabled":
		return bad("aws kms describe-key --key-id "+k.ARN, "the key %s is %s: EC2 starts no instance with its disks",
			k.ARN, k.State)
	case k.AWSManaged && foreign:
		return bad("aws ec2 copy-image --name NAME --source-image-id "+f.image.value.ID+
			" --source-region REGION --encrypted --kms-key-id KEY",
			"the account %s encrypted the image with its key aws/ebs, which no other account can use: the owner must "+
				"copy the image with another key", k.Account)
	case k.AWSManaged:
		return good("the key aws/ebs, which the whole account can use")
	case !k.Symmetric:
		return bad("aws kms create-key", "the key %s is not symmetric: EBS supports only symmetric keys", k.ARN)
	case f.target.NodeClass != nil:
		return maybe("aws kms get-key-policy --policy-name default --key-id "+k.ARN,
			"Karpenter's controller must be able to use the key %s: preflight does not know its role", k.ARN)
	case granted(k.Grants, role):
		return good("%s, by a grant", k.ARN)
	case foreign:
		return maybe(f.grant(k), "the account %s has the key %s, and only that account can read the key's policy: "+
			"Auto Scaling needs a grant", k.Account, k.ARN)
	}
	allowed, sure := allows(k.Policy, role)
	switch {
	case allowed && sure:
		return good("%s, by its policy", k.ARN)
	case !sure || f.launch.absent:
		return maybe(f.grant(k), "the policy of the key %s does not clearly let Auto Scaling use the key", k.ARN)
	}
	return bad(f.grant(k), "the key %s lets Auto Scaling not use the key: instances of Auto Scaling groups and of "+
		"managed node groups end with Client.InternalError", k.ARN)
}

// scalingRole is the service-linked role with which Auto Scaling starts instances.
func (f *facts) scalingRole() string {
	return fmt.Sprintf("arn:%s:iam::%s:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling",
		f.partition(), f.account.value)
}

// grant is the command that lets Auto Scaling use a key. It keeps the key's policy.
func (f *facts) grant(k awsapi.Key) string {
	return "aws kms create-grant --key-id " + k.ARN + " --grantee-principal " + f.scalingRole() +
		" --operations Encrypt Decrypt ReEncryptFrom ReEncryptTo GenerateDataKey GenerateDataKeyWithoutPlaintext " +
		"DescribeKey CreateGrant"
}

// granted says whether a grant lets a role attach encrypted disks.
func granted(grants []types.GrantListEntry, role string) bool {
	needed := []types.GrantOperation{"Decrypt", "GenerateDataKeyWithoutPlaintext", "CreateGrant"}
	return slices.ContainsFunc(grants, func(g types.GrantListEntry) bool {
		lacks := func(o types.GrantOperation) bool { return !slices.Contains(g.Operations, o) }
		return aws.ToString(g.GranteePrincipal) == role && !slices.ContainsFunc(needed, lacks)
	})
}

// harmless are the condition keys that hold for Auto Scaling.
func harmless() []string {
	return []string{"kms:grantisforawsresource", "kms:viaservice", "kms:calleraccount", "aws:principalaccount",
		"aws:sourceaccount"}
}

// allows says whether a key policy lets a role use the key for disks, and whether
// that is sure. The account's own IAM policies do not matter: the service-linked role
// has no permission for keys.
func allows(text, role string) (allowed, sure bool) {
	var p clustersetup.Document
	if json.Unmarshal([]byte(text), &p) != nil {
		return false, false
	}
	needed := []string{"kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext", "kms:CreateGrant"}
	left := slices.Clone(needed)
	for _, s := range p.Statement {
		if s.NotPrincipal != nil || s.NotAction != nil {
			return false, false
		}
		if !slices.Contains(s.Principal.AWS, role) && !slices.Contains(s.Principal.AWS, "*") {
			continue
		}
		about := slices.DeleteFunc(slices.Clone(needed), func(action string) bool { return !s.About(action) })
		switch {
		case len(about) == 0:
		case s.Effect != "Allow" || !holds(s.Condition): // also a denial after a permission
			return false, false
		default:
			left = slices.DeleteFunc(left, func(a string) bool { return slices.Contains(about, a) })
		}
	}
	return len(left) == 0, true
}

// holds says whether every condition is about keys that hold for Auto Scaling.
func holds(conditions map[string]map[string]clustersetup.OneOrMore[any]) bool {
	for _, keys := range conditions {
		for key := range keys {
			if !slices.Contains(harmless(), strings.ToLower(key)) {
				return false
			}
		}
	}
	return true
}

// answer is what a policy says about a call.
type answer int

const (
	refused answer = iota
	// undecided depends on who calls, or on a condition.
	undecided
	allowed
)

func about(p clustersetup.Document, c call) (said answer, denied bool) {
	for _, s := range p.Statement {
		if !matches(s, c) {
			continue
		}
		clear := slices.Contains(s.Principal.AWS, "*") && s.NotPrincipal == nil && len(s.Condition) == 0
		switch {
		case s.Effect == "Deny" && clear:
			return refused, true
		case s.Effect == "Deny":
			said, denied = undecided, true
		case denied:
		case clear:
			said = allowed
		default:
			said = max(said, undecided)
		}
	}
	return said, denied
}

func matches(s clustersetup.Statement, c call) bool {
	action := s.About(c.action) || len(s.NotAction) > 0 && !clustersetup.AnyLike(s.NotAction, c.action, true)
	resource := clustersetup.AnyLike(s.Resource, c.resource, false) || len(s.NotResource) > 0 &&
		!clustersetup.AnyLike(s.NotResource, c.resource, false)
	return action && resource
}

// permits checks the policy of an endpoint for the calls of a node. It returns nil
// when the policy allows all of them.
func (f *facts) permits(e awsapi.Endpoint, svc service) *result {
	if e.Policy == "" || len(svc.calls) == 0 {
		return nil
	}
	var p clustersetup.Document
	if err := json.Unmarshal([]byte(e.Policy), &p); err != nil {
		return f.unseen(fmt.Errorf("reading the policy of the endpoint %s: %w", e.ID, err))
	}
	for _, c := range svc.calls {
		said, denied := about(p, c)
		if said == allowed {
			continue
		}
		// The registry's account depends on the region, and private clusters often
		// have copies of the images in their own registry.
		if said == refused && !denied && svc.name == "ecr.dkr" && slices.ContainsFunc(p.Statement,
			func(s clustersetup.Statement) bool { return s.Effect == "Allow" && s.About(c.action) }) {
			said = undecided
		}
		look := fmt.Sprintf("aws ec2 describe-vpc-endpoints --vpc-endpoint-ids %s --query "+
			"VpcEndpoints[0].PolicyDocument --output text", e.ID)
		switch {
		case said == undecided:
			return maybe(look, "the policy of the endpoint %s for %s allows %s only for some callers or resources, or "+
				"under conditions: check that these include the nodes and %s", e.ID, e.Service, c.action, c.resource)
		case denied:
			return bad(look, "the policy of the endpoint %s for %s denies %s of %s: remove the statement that "+
				"denies it", e.ID, e.Service, c.action, c.resource)
		default:
			return bad(addStatement(e, c, look), "the policy of the endpoint %s for %s does not allow %s of %s", e.ID,
				e.Service, c.action, c.resource)
		}
	}
	return nil
}

// addStatement is the command that adds a statement for a call to the policy of an
// endpoint. EC2 replaces policies only as a whole, so the command repeats all
// statements.
func addStatement(e awsapi.Endpoint, c call, look string) string {
	resource := c.resource
	if bucket, found := strings.CutSuffix(resource, "/layer"); found {
		resource = bucket + "/*"
	}
	text, err := clustersetup.Extended(e.Policy, map[string]any{"Effect": "Allow", "Principal": "*", "Action": c.action,
		"Resource": resource})
	if err != nil {
		return look
	}
	return fmt.Sprintf("aws ec2 modify-vpc-endpoint --vpc-endpoint-id %s --policy-document %s", e.ID,
		show.ShellQuote(text))
}

// checkSTS reports what STS itself answered. No API returns the account's setting,
// and STS may answer some calls in a region in which it is off.
func checkSTS(f *facts) *result {
	var api *awsapi.APIError
	switch {
	case errors.As(f.account.err, &api) && api.Code == "RegionDisabledException":
		return bad(f.target.command(""), "STS is off for your account in %s: turn it on in the IAM console, under "+
			"Account settings, because no command does; then run this preflight again (%s)", f.region(), api.Said)
	case f.account.err != nil:
		return f.unseen(f.account.err)
	}
	return good("STS in %s answers the account %s", f.region(), f.account.value)
}
