package awsapi

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Question asks whether a principal may use an action on a resource.
type Question struct{ Action, Resource string }

// Decision is IAM's answer to a question.
type Decision struct {
	Question
	Allowed bool
	// Denied says that a statement denies the action. Otherwise no statement allows
	// the action.
	Denied bool
	// Boundary says that the permissions boundary does not allow the action, and
	// Organization that a policy of the organization does not.
	Boundary, Organization bool
	// Missing are the condition keys on which the decision depends, and which the
	// simulation does not know.
	Missing []string
}

// Simulate evaluates all policies of a principal: attached and inline policies,
// the permissions boundary, and policies of the organization without conditions.
// It returns the decisions that are not clearly positive. known are values of
// condition keys; true is a boolean.
func (a *AWS) Simulate(ctx context.Context, principal string, known map[string]string,
	questions []Question) ([]Decision, error) {
	byResource := map[string][]string{}
	for _, q := range questions {
		byResource[q.Resource] = append(byResource[q.Resource], q.Action)
	}
	var keys []types.ContextEntry
	for _, name := range slices.Sorted(maps.Keys(known)) {
		kind := types.ContextKeyTypeEnumString
		if known[name] == "true" {
			kind = types.ContextKeyTypeEnumBoolean
		}
		keys = append(keys, types.ContextEntry{ContextKeyName: aws.String(name), ContextKeyType: kind,
			ContextKeyValues: []string{known[name]}})
	}
	var doubtful []Decision
	for _, resource := range slices.Sorted(maps.Keys(byResource)) {
		pages := iam.NewSimulatePrincipalPolicyPaginator(a.iam, &iam.SimulatePrincipalPolicyInput{
			PolicySourceArn: aws.String(principal), ActionNames: byResource[resource], ResourceArns: []string{resource},
			ContextEntries: keys,
		})
		for r, err := range each[types.EvaluationResult](ctx, "simulating the policies of "+principal, pages) {
			if err != nil {
				return nil, err
			}
			if d := decisionOf(r, resource); !d.Allowed || len(d.Missing) > 0 {
				doubtful = append(doubtful, d)
			}
		}
	}
	return doubtful, nil
}

func decisionOf(in types.EvaluationResult, resource string) Decision {
	d := Decision{
		Question: Question{aws.ToString(in.EvalActionName), resource},
		Allowed:  in.EvalDecision == types.PolicyEvaluationDecisionTypeAllowed,
		Denied:   in.EvalDecision == types.PolicyEvaluationDecisionTypeExplicitDeny, Missing: in.MissingContextValues,
	}
	if b := in.PermissionsBoundaryDecisionDetail; b != nil {
		d.Boundary = !b.AllowedByPermissionsBoundary
	}
	if o := in.OrganizationsDecisionDetail; o != nil {
		d.Organization = !o.AllowedByOrganizations
	}
	return d
}

// Role is an IAM role.
type Role struct {
	Name, ARN string
	// Trust is the trust policy as JSON.
	Trust string
	// Policies are the names of the policies attached to the role.
	Policies []string
}

// Profile is an instance profile.
type Profile struct {
	Name string
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
	if len(out.InstanceProfile.Roles) == 0 {
		return Profile{Name: name}, nil
	}
	role, err := a.roleOf(ctx, out.InstanceProfile.Roles[0])
	return Profile{name, &role}, err
}

// Role reads a role with its policies, by name or ARN. The role must belong to the
// caller's account.
func (a *AWS) Role(ctx context.Context, role string) (Role, error) {
	name := role[strings.LastIndex(role, "/")+1:]
	doing := "reading the role " + name
	out, err := a.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String(name)})
	if err != nil {
		return Role{}, explain(doing, err)
	}
	if out.Role == nil {
		return Role{}, errIncomplete(doing, "role")
	}
	return a.roleOf(ctx, *out.Role)
}

// roleOf adds the role's policies.
func (a *AWS) roleOf(ctx context.Context, in types.Role) (Role, error) {
	r := Role{Name: aws.ToString(in.RoleName), ARN: aws.ToString(in.Arn)}
	var err error
	// IAM returns the policy URL-encoded.
	if r.Trust, err = url.QueryUnescape(aws.ToString(in.AssumeRolePolicyDocument)); err != nil {
		return Role{}, fmt.Errorf("reading the trust policy of the role %s: %w", r.Name, err)
	}
	pages := iam.NewListAttachedRolePoliciesPaginator(a.iam, &iam.ListAttachedRolePoliciesInput{RoleName: in.RoleName})
	r.Policies, err = collect(each[types.AttachedPolicy](ctx, "listing the policies of the role "+r.Name, pages),
		func(p types.AttachedPolicy) string { return aws.ToString(p.PolicyName) })
	return r, err
}

// Account is the ID of the caller's account.
func (a *AWS) Account(ctx context.Context) (string, error) {
	out, err := a.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", explain("reading the caller's identity", err)
	}
	return aws.ToString(out.Account), nil
}

// PodIdentities lists the pod identity associations of a service account.
func (a *AWS) PodIdentities(
	ctx context.Context, cluster, namespace, account string,
) ([]*ekstypes.PodIdentityAssociation, error) {
	var all []*ekstypes.PodIdentityAssociation
	pages := eks.NewListPodIdentityAssociationsPaginator(a.eks, &eks.ListPodIdentityAssociationsInput{
		ClusterName: aws.String(cluster), Namespace: aws.String(namespace), ServiceAccount: aws.String(account),
	})
	doing := fmt.Sprintf("listing the pod identity associations of %s/%s", namespace, account)
	for in, err := range each[ekstypes.PodIdentityAssociationSummary](ctx, doing, pages) {
		if err != nil {
			return nil, err
		}
		doing := "describing the pod identity association " + aws.ToString(in.AssociationId)
		out, err := a.eks.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{
			ClusterName: aws.String(cluster), AssociationId: in.AssociationId,
		})
		if err != nil {
			return nil, explain(doing, err)
		}
		if out.Association == nil || aws.ToString(out.Association.RoleArn) == "" {
			return nil, errIncomplete(doing, "role")
		}
		all = append(all, out.Association)
	}
	return all, nil
}

// OIDCClients returns the audiences of an OpenID Connect provider of IAM. An error
// for which IsNotFound is true means that IAM has no such provider.
func (a *AWS) OIDCClients(ctx context.Context, provider string) ([]string, error) {
	out, err := a.iam.GetOpenIDConnectProvider(ctx,
		&iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: aws.String(provider)})
	if err != nil {
		return nil, explain("reading the OpenID Connect provider "+provider, err)
	}
	return out.ClientIDList, nil
}
