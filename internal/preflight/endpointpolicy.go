package preflight

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

type endpointPolicy struct{ Statement oneOrMore[endpointStatement] }

type endpointStatement struct {
	Effect                string
	Principal             everybody
	NotPrincipal          any
	Action, NotAction     oneOrMore[string]
	Resource, NotResource oneOrMore[string]
	Condition             map[string]any
}

type everybody bool

func (e *everybody) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*e = one == "*"
		return nil
	}
	var kinds struct{ AWS oneOrMore[string] }
	err := json.Unmarshal(text, &kinds)
	*e = everybody(slices.Contains(kinds.AWS, "*"))
	return err
}

// answer is what a policy says about a call.
type answer int

const (
	refused answer = iota
	// undecided depends on who calls, or on a condition.
	undecided
	allowed
)

func (p endpointPolicy) about(c call) (said answer, denied bool) {
	for _, s := range p.Statement {
		if !s.matches(c) {
			continue
		}
		clear := bool(s.Principal) && s.NotPrincipal == nil && len(s.Condition) == 0
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

func (s endpointStatement) matches(c call) bool {
	action := anyLike(s.Action, c.action, true) || len(s.NotAction) > 0 && !anyLike(s.NotAction, c.action, true)
	resource := anyLike(s.Resource, c.resource, false) || len(s.NotResource) > 0 && !anyLike(s.NotResource, c.resource, false)
	return action && resource
}

// anyLike says whether a value is like one of IAM's patterns. Actions ignore case.
func anyLike(patterns []string, value string, fold bool) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		expression := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(p))
		if fold {
			expression = "(?i)" + expression
		}
		found, err := regexp.MatchString("^(?s:"+expression+")$", value)
		return err == nil && found
	})
}

// permits checks the policy of an endpoint for the calls of a node. It returns nil
// when the policy allows all of them.
func (f *facts) permits(e awsapi.Endpoint, svc service) *result {
	if e.Policy == "" || len(svc.calls) == 0 {
		return nil
	}
	var policy endpointPolicy
	if err := json.Unmarshal([]byte(e.Policy), &policy); err != nil {
		r := f.unseen(fmt.Errorf("reading the policy of the endpoint %s: %w", e.ID, err))
		return &r
	}
	for _, c := range svc.calls {
		said, denied := policy.about(c)
		if said == allowed {
			continue
		}
		// The registry's account depends on the region, and private clusters often
		// have copies of the images in their own registry.
		if said == refused && !denied && svc.name == "ecr.dkr" && slices.ContainsFunc(policy.Statement, func(s endpointStatement) bool {
			return s.Effect == "Allow" && anyLike(s.Action, c.action, true)
		}) {
			said = undecided
		}
		look := fmt.Sprintf("aws ec2 describe-vpc-endpoints --vpc-endpoint-ids %s --query VpcEndpoints[0].PolicyDocument --output text", e.ID)
		var r result
		switch {
		case said == undecided:
			r = maybe(look, "the policy of the endpoint %s for %s allows %s only for some callers or resources, or under conditions: check that these include the nodes and %s",
				e.ID, e.Service, c.action, c.resource)
		case denied:
			r = bad(look, "the policy of the endpoint %s for %s denies %s of %s: remove the statement that denies it", e.ID, e.Service, c.action, c.resource)
		default:
			r = bad(addStatement(e, c, look), "the policy of the endpoint %s for %s does not allow %s of %s", e.ID, e.Service, c.action, c.resource)
		}
		return &r
	}
	return nil
}

// addStatement is the command that adds a statement for a call to the policy of an
// endpoint. EC2 replaces policies only as a whole, so the command repeats all
// statements.
func addStatement(e awsapi.Endpoint, c call, look string) string {
	text, err := extended(e.Policy, c)
	if err != nil {
		return look
	}
	return fmt.Sprintf("aws ec2 modify-vpc-endpoint --vpc-endpoint-id %s --policy-document %s", e.ID, show.ShellQuote(text))
}

// extended is a policy with a further statement, which allows a call.
func extended(policy string, c call) (string, error) {
	whole := map[string]any{}
	var statements struct{ Statement oneOrMore[map[string]any] }
	if err := errors.Join(json.Unmarshal([]byte(policy), &whole), json.Unmarshal([]byte(policy), &statements)); err != nil {
		return "", err
	}
	resource := c.resource
	if bucket, found := strings.CutSuffix(resource, "/layer"); found {
		resource = bucket + "/*"
	}
	for name := range whole { // encoding/json reads names in any case
		if strings.EqualFold(name, "Statement") {
			delete(whole, name)
		}
	}
	whole["Statement"] = append(statements.Statement, map[string]any{"Effect": "Allow", "Principal": "*", "Action": c.action, "Resource": resource})
	text, err := json.Marshal(whole)
	return string(text), err
}

// checkSTS reports what STS itself answered. No API returns the account's setting,
// and STS may answer some calls in a region in which it is off.
func checkSTS(f *facts) result {
	var api *awsapi.APIError
	switch {
	case errors.As(f.account.err, &api) && api.Code == "RegionDisabledException":
		return bad(f.target.command(""), "STS is off for your account in %s: turn it on in the IAM console, under Account settings, because no command does; then run this preflight again (%s)",
			f.region(), api.Said)
	case f.account.err != nil:
		return f.unseen(f.account.err)
	}
	return good("STS in %s answers the account %s", f.region(), f.account.value)
}
