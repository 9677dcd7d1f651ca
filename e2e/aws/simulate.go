//go:build linux

package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// This file is our own supplement: moto 5.1 has no SimulatePrincipalPolicy. It
// evaluates the policies that moto keeps, by the rules of
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html.
// What it does not know is refused.

// oneOrMore is a JSON value that IAM writes as one value or as a list.
type oneOrMore []string

func (o *oneOrMore) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*o = []string{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(o))
}

type statement struct {
	Sid, Effect string
	Action      oneOrMore
	NotAction   oneOrMore
	Resource    oneOrMore
	NotResource oneOrMore
	Condition   map[string]map[string]oneOrMore
}

// ActionsOf are the actions of a policy, sorted.
func ActionsOf(t testing.TB, policy string) (all []string) {
	t.Helper()
	statements, err := policyOf(policy)
	require.NoError(t, err)
	for _, s := range statements {
		all = append(all, s.Action...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// policyOf reads a policy document strictly.
func policyOf(text string) ([]statement, error) {
	var document struct {
		Version, ID string
		Statement   json.RawMessage
	}
	strict := func(text []byte, into any) error {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		return d.Decode(into)
	}
	if err := strict([]byte(text), &document); err != nil {
		return nil, endpoint.Refuse("the policy %s: %v", text, err)
	}
	list := []byte(document.Statement)
	if !bytes.HasPrefix(bytes.TrimSpace(list), []byte("[")) {
		list = slices.Concat([]byte("["), list, []byte("]"))
	}
	var statements []statement
	if err := strict(list, &statements); err != nil {
		return nil, endpoint.Refuse("the policy %s: %v", text, err)
	}
	return statements, nil
}

// asked is one question to the simulation.
type asked struct {
	action, resource string
	keys             map[string][]string
}

func anyLike(patterns []string, value string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return wildcard(strings.ToLower(p), strings.ToLower(value)) })
}

// applies reports whether a statement is about a question, and the condition keys
// that are missing to decide.
func (s statement) applies(q asked) (fits bool, missing []string, err error) {
	switch {
	case len(s.Action) > 0 && !anyLike(s.Action, q.action), len(s.NotAction) > 0 && anyLike(s.NotAction, q.action),
		len(s.Resource) > 0 && !anyLike(s.Resource, q.resource), len(s.NotResource) > 0 && anyLike(s.NotResource, q.resource):
		return false, nil, nil
	}
	fits = true
	for operator, keys := range s.Condition {
		operator, optional := strings.CutSuffix(operator, "IfExists")
		for key, wanted := range keys {
			values, known := q.keys[strings.ToLower(key)]
			if !known {
				missing = append(missing, key)
				fits = fits && optional
				continue
			}
			one := slices.ContainsFunc(values, func(v string) bool {
				if strings.HasSuffix(operator, "Like") {
					return slices.ContainsFunc(wanted, func(p string) bool { return wildcard(p, v) })
				}
				return slices.Contains(wanted, v)
			})
			switch operator {
			case "StringEquals", "StringLike", "ArnLike", "ArnEquals", "Bool":
				fits = fits && one
			case "StringNotEquals", "StringNotLike", "ArnNotLike":
				fits = fits && !one
			default:
				return false, nil, endpoint.Refuse("the condition operator %s", operator)
			}
		}
	}
	return fits, missing, nil
}

func decide(statements []statement, q asked) (decision string, missing []string, err error) {
	decision = "implicitDeny"
	for _, s := range statements {
		fits, unknown, err := s.applies(q)
		if err != nil {
			return "", nil, err
		}
		missing = append(missing, unknown...)
		switch {
		case !fits:
		case s.Effect == "Deny":
			decision = "explicitDeny"
		case s.Effect == "Allow" && decision != "explicitDeny":
			decision = "allowed"
		}
	}
	slices.Sort(missing)
	return decision, slices.Compact(missing), nil
}

// document reads a policy document in a response of moto.
func document(answer []byte, element string) (string, error) {
	found := regexp.MustCompile(`<` + element + `>([^<]*)</`).FindSubmatch(answer)
	if found == nil {
		return "", endpoint.Refuse("the response %s without %s", answer, element)
	}
	text, err := url.QueryUnescape(strings.NewReplacer("&#34;", `"`, "&quot;", `"`, "&amp;", "&", "&lt;", "<", "&gt;", ">", "&#39;", "'").Replace(string(found[1])))
	return text, err
}

// managed reads the document of a managed policy's default version.
func (w *World) managed(region, arn string) (string, error) {
	answer, err := w.try(region, "iam:GetPolicy", "PolicyArn", arn)
	if err != nil {
		return "", err
	}
	version, err := document(answer, "DefaultVersionId")
	if err != nil {
		return "", err
	}
	if answer, err = w.try(region, "iam:GetPolicyVersion", "PolicyArn", arn, "VersionId", version); err != nil {
		return "", err
	}
	return document(answer, "Document")
}

// policies reads all policies of a role: identity policies and the boundary.
func (w *World) policies(region, role string) (identity, boundary []statement, bounded bool, err error) {
	var texts []string
	answer, err := w.try(region, "iam:ListAttachedRolePolicies", "RoleName", role)
	if err != nil {
		return nil, nil, false, endpoint.Fail("NoSuchEntity", "The role %s does not exist", role)
	}
	for _, arn := range regexp.MustCompile(`<PolicyArn>([^<]*)<`).FindAllSubmatch(answer, -1) {
		text, err := w.managed(region, string(arn[1]))
		if err != nil {
			return nil, nil, false, err
		}
		texts = append(texts, text)
	}
	if answer, err = w.try(region, "iam:ListRolePolicies", "RoleName", role); err != nil {
		return nil, nil, false, err
	}
	for _, name := range regexp.MustCompile(`<member>([^<]*)<`).FindAllSubmatch(answer, -1) {
		one, err := w.try(region, "iam:GetRolePolicy", "RoleName", role, "PolicyName", string(name[1]))
		if err != nil {
			return nil, nil, false, err
		}
		text, err := document(one, "PolicyDocument")
		if err != nil {
			return nil, nil, false, err
		}
		texts = append(texts, text)
	}
	for _, text := range texts {
		list, err := policyOf(text)
		if err != nil {
			return nil, nil, false, err
		}
		identity = append(identity, list...)
	}
	if answer, err = w.try(region, "iam:GetRole", "RoleName", role); err != nil {
		return nil, nil, false, err
	}
	limit := regexp.MustCompile(`<PermissionsBoundaryArn>([^<]*)<`).FindSubmatch(answer)
	if limit == nil {
		return identity, nil, false, nil
	}
	text, err := w.managed(region, string(limit[1]))
	if err != nil {
		return nil, nil, false, err
	}
	boundary, err = policyOf(text)
	return identity, boundary, true, err
}

func (w *World) deniedTo(action string) bool {
	w.faults.Lock()
	defer w.faults.Unlock()
	return slices.Contains(w.denied, action)
}

type simulateIn struct {
	PolicySourceArn, Marker   string
	ActionNames, ResourceArns []string
	ContextEntries            []struct {
		ContextKeyName, ContextKeyType string
		ContextKeyValues               []string
	}
}

type evaluation struct {
	Action       string   `xml:"EvalActionName"`
	Resource     string   `xml:"EvalResourceName"`
	Decision     string   `xml:"EvalDecision"`
	Missing      []string `xml:"MissingContextValues>member"`
	Boundary     *allowed `xml:"PermissionsBoundaryDecisionDetail"`
	Organization *limits  `xml:"OrganizationsDecisionDetail"`
}

type allowed struct {
	Is bool `xml:"AllowedByPermissionsBoundary"`
}

type limits struct {
	Is bool `xml:"AllowedByOrganizations"`
}

type simulateOut struct {
	Results   []evaluation `xml:"EvaluationResults>member"`
	Truncated bool         `xml:"IsTruncated"`
}

// simulate evaluates the policies of a role.
func (w *World) simulate(_ context.Context, call endpoint.Call, in simulateIn) (simulateOut, error) {
	if strings.Contains(in.PolicySourceArn, ":user/") { // the caller, with what Deny and Permit leave
		out := simulateOut{}
		for _, action := range in.ActionNames {
			e := evaluation{Action: action, Resource: "*", Decision: "implicitDeny"}
			if !w.deniedTo(action) && w.allowed(action, "*", nil) {
				e.Decision = "allowed"
			}
			out.Results = append(out.Results, e)
		}
		return out, nil
	}
	account, name, isRole := strings.Cut(in.PolicySourceArn, ":role/")
	if !isRole || !strings.HasSuffix(account, ":"+Account) {
		return simulateOut{}, endpoint.Fail("InvalidInput", "Invalid principal %s", in.PolicySourceArn)
	}
	if len(in.ActionNames) == 0 {
		return simulateOut{}, endpoint.Fail("ValidationError", "ActionNames is missing")
	}
	identity, boundary, bounded, err := w.policies(call.Region, name[strings.LastIndex(name, "/")+1:])
	if err != nil {
		return simulateOut{}, err
	}
	keys := map[string][]string{}
	for _, k := range in.ContextEntries {
		keys[strings.ToLower(k.ContextKeyName)] = k.ContextKeyValues
	}
	out := simulateOut{}
	for _, action := range in.ActionNames {
		for _, resource := range in.ResourceArns {
			q := asked{action, resource, keys}
			decision, missing, err := decide(identity, q)
			if err != nil {
				return simulateOut{}, err
			}
			e := evaluation{Action: action, Resource: resource, Decision: decision, Missing: missing}
			if err := w.limit(&e, q, boundary, bounded); err != nil {
				return simulateOut{}, err
			}
			out.Results = append(out.Results, e)
		}
	}
	return out, nil
}

// limit applies the permissions boundary and the guardrails of the organization.
func (w *World) limit(e *evaluation, q asked, boundary []statement, bounded bool) error {
	lower := func(statements []statement) (bool, error) {
		decision, _, err := decide(statements, q)
		if decision == "explicitDeny" || e.Decision == "allowed" && decision != "allowed" {
			e.Decision = decision
		}
		return decision == "allowed", err
	}
	if bounded {
		is, err := lower(boundary)
		if err != nil {
			return err
		}
		e.Boundary = &allowed{is}
	}
	for _, text := range w.Guardrails {
		statements, err := policyOf(text)
		if err != nil {
			return err
		}
		is, err := lower(statements)
		if err != nil {
			return err
		}
		e.Organization = &limits{is && (e.Organization == nil || e.Organization.Is)}
	}
	return nil
}
