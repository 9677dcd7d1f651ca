package awsapi

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// SetupActions are the permissions for reading what a cluster and its account have
// for nodes, and no others. A test compares them with the calls.
func SetupActions() []string {
	return []string{
		"ec2:DescribeImages", "ec2:DescribeRouteTables", "ec2:DescribeSubnets",
		"eks:DescribeAccessEntry", "eks:DescribeAddon", "eks:DescribeCluster", "eks:DescribePodIdentityAssociation", "eks:ListAddons", "eks:ListPodIdentityAssociations",
		"iam:GetInstanceProfile", "iam:GetPolicy", "iam:GetPolicyVersion", "iam:GetRole", "iam:ListAttachedRolePolicies", "iam:ListInstanceProfilesForRole",
		"ssm:GetParameter",
	}
}

// ProfilesOf lists the names of the instance profiles that have a role.
func (a *AWS) ProfilesOf(ctx context.Context, role string) ([]string, error) {
	var names []string
	pages := iam.NewListInstanceProfilesForRolePaginator(a.iam, &iam.ListInstanceProfilesForRoleInput{RoleName: aws.String(role)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("listing the instance profiles of the role "+role, err)
		}
		for _, p := range page.InstanceProfiles {
			names = append(names, aws.ToString(p.InstanceProfileName))
		}
	}
	return names, nil
}

// PolicyDocument reads the default version of a managed policy as JSON. An error for
// which IsNotFound is true means that there is no such policy.
func (a *AWS) PolicyDocument(ctx context.Context, arn string) (string, error) {
	doing := "reading the policy " + arn
	policy, err := a.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: aws.String(arn)})
	if err != nil {
		return "", explain(doing, err)
	}
	if policy.Policy == nil {
		return "", errIncomplete(doing, "policy")
	}
	out, err := a.iam.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: aws.String(arn), VersionId: policy.Policy.DefaultVersionId})
	if err != nil {
		return "", explain(doing, err)
	}
	if out.PolicyVersion == nil {
		return "", errIncomplete(doing, "document")
	}
	text, err := url.QueryUnescape(aws.ToString(out.PolicyVersion.Document))
	return text, explain(doing, err)
}

// Pinned returns the name of an image with the present version of its SSM parameter.
// An image ID stays as it is.
func (a *AWS) Pinned(ctx context.Context, image string) (string, error) {
	name, parameter := strings.CutPrefix(image, byParameter)
	if !parameter {
		return image, nil
	}
	doing := "reading the version of the parameter " + name
	out, err := a.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String(name)})
	if err != nil {
		return "", explain(doing, err)
	}
	if out.Parameter == nil || out.Parameter.Version == 0 {
		return "", errIncomplete(doing, "version")
	}
	return fmt.Sprintf("%s%s:%d", byParameter, aws.ToString(out.Parameter.Name), out.Parameter.Version), nil
}
