package awsapi

import (
	"context"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Role is an IAM role.
type Role struct {
	Name, ARN, Path string
	// Trust is the trust policy as JSON.
	Trust string
	// Policies are the names of the policies attached to the role.
	Policies []string
}

// Profile is an instance profile.
type Profile struct {
	Name, ARN string
	// Role is nil when the profile has none.
	Role *Role
}

// Profile reads an instance profile, by name or ARN, with its role and the role's
// policies.
func (a *AWS) Profile(ctx context.Context, profile string) (Profile, error) {
	name := profile[strings.LastIndex(profile, "/")+1:]
	doing := "reading the instance profile " + name
	out, err := a.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(name)})
	if err != nil {
		return Profile{}, explain(doing, err)
	}
	if out.InstanceProfile == nil {
		return Profile{}, errIncomplete(doing, "instance profile")
	}
	p := Profile{Name: name, ARN: aws.ToString(out.InstanceProfile.Arn)}
	if len(out.InstanceProfile.Roles) == 0 {
		return p, nil
	}
	in := out.InstanceProfile.Roles[0]
	p.Role = &Role{Name: aws.ToString(in.RoleName), ARN: aws.ToString(in.Arn), Path: aws.ToString(in.Path)}
	// IAM returns the policy URL-encoded.
	if p.Role.Trust, err = url.QueryUnescape(aws.ToString(in.AssumeRolePolicyDocument)); err != nil {
		return Profile{}, explain(doing, err)
	}
	pages := iam.NewListAttachedRolePoliciesPaginator(a.iam, &iam.ListAttachedRolePoliciesInput{RoleName: in.RoleName})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return Profile{}, explain("listing the policies of the role "+p.Role.Name, err)
		}
		for _, policy := range page.AttachedPolicies {
			p.Role.Policies = append(p.Role.Policies, aws.ToString(policy.PolicyName))
		}
	}
	return p, nil
}

// Account is the ID of the caller's account.
func (a *AWS) Account(ctx context.Context) (string, error) {
	out, err := a.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", explain("reading the caller's identity", err)
	}
	return aws.ToString(out.Account), nil
}
