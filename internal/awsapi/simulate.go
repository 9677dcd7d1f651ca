package awsapi

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
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
func (a *AWS) Simulate(ctx context.Context, principal string, known map[string]string, questions []Question) ([]Decision, error) {
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
		keys = append(keys, types.ContextEntry{ContextKeyName: aws.String(name), ContextKeyType: kind, ContextKeyValues: []string{known[name]}})
	}
	var doubtful []Decision
	for _, resource := range slices.Sorted(maps.Keys(byResource)) {
		pages := iam.NewSimulatePrincipalPolicyPaginator(a.iam, &iam.SimulatePrincipalPolicyInput{
			PolicySourceArn: aws.String(principal), ActionNames: byResource[resource], ResourceArns: []string{resource}, ContextEntries: keys,
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, explain("simulating the policies of "+principal, err)
			}
			for _, r := range page.EvaluationResults {
				if d := decisionOf(r, resource); !d.Allowed || len(d.Missing) > 0 {
					doubtful = append(doubtful, d)
				}
			}
		}
	}
	return doubtful, nil
}

func decisionOf(in types.EvaluationResult, resource string) Decision {
	d := Decision{
		Question: Question{aws.ToString(in.EvalActionName), resource}, Allowed: in.EvalDecision == types.PolicyEvaluationDecisionTypeAllowed,
		Denied: in.EvalDecision == types.PolicyEvaluationDecisionTypeExplicitDeny, Missing: in.MissingContextValues,
	}
	if b := in.PermissionsBoundaryDecisionDetail; b != nil {
		d.Boundary = !b.AllowedByPermissionsBoundary
	}
	if o := in.OrganizationsDecisionDetail; o != nil {
		d.Organization = !o.AllowedByOrganizations
	}
	return d
}
