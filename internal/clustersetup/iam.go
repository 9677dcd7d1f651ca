package clustersetup

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// OneOrMore is a JSON value that IAM writes as one value or as a list.
type OneOrMore[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (o *OneOrMore[T]) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, (*[]T)(o)) == nil {
		return nil
	}
	*o = make([]T, 1)
	return json.Unmarshal(text, &(*o)[0])
}

// Document is a policy of IAM: of a role's trust, of a key or of an endpoint.
type Document struct{ Statement OneOrMore[Statement] }

// Statement is a statement of a policy.
type Statement struct {
	Effect                string
	Principal             Principal
	NotPrincipal          any
	Action, NotAction     OneOrMore[string]
	Resource, NotResource OneOrMore[string]
	// Condition has one or more texts, numbers or booleans by operator and key.
	Condition map[string]map[string]OneOrMore[any]
}

// About says whether a statement names an action. Actions ignore case.
func (s Statement) About(action string) bool { return AnyLike(s.Action, action, true) }

// Principal is the principal of a statement: accounts and roles, services, identity
// providers, or everybody.
type Principal struct{ AWS, Service, Federated OneOrMore[string] }

// UnmarshalJSON implements json.Unmarshaler.
func (p *Principal) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) != nil {
		type plain Principal
		return json.Unmarshal(text, (*plain)(p))
	}
	if one == "*" {
		*p = Principal{[]string{"*"}, []string{"*"}, []string{"*"}}
	}
	return nil
}

// Is says whether the principal is one of some services.
func (p Principal) Is(services ...string) bool {
	return slices.ContainsFunc(p.Service, func(name string) bool {
		return name == "*" || slices.Contains(services, name)
	})
}

// AnyLike says whether a value is like one of IAM's patterns: * is any text, and ? any
// character.
func AnyLike(patterns []string, value string, fold bool) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		expression := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(p))
		if fold {
			expression = "(?i)" + expression
		}
		found, err := regexp.MatchString("^(?s:"+expression+")$", value)
		return err == nil && found
	})
}

// Trusts says whether a trust policy lets a service take actions.
func Trusts(text, service string, actions ...string) bool {
	var d Document
	if json.Unmarshal([]byte(text), &d) != nil {
		return false
	}
	missing, denied := d.Missing(actions, func(s Statement) bool { return s.Principal.Is(service) })
	return len(missing) == 0 && !denied
}

// maxDocument bounds the JSON of an IAM document in bytes. IAM allows 10,240
// characters.
const maxDocument = 64 << 10

func readDocument(text string) (d Document, err error) {
	if len(text) > maxDocument {
		return d, fmt.Errorf("the document has %d bytes, but IAM allows at most 10,240 characters", len(text))
	}
	if strings.TrimSpace(text) == "null" {
		return d, errors.New("the document is null")
	}
	return d, json.Unmarshal([]byte(text), &d)
}

// Extended is a policy with further statements. Members that eksnode does not know stay.
func Extended(policy string, further ...any) (string, error) {
	whole := map[string]any{}
	var statements struct{ Statement OneOrMore[any] }
	if err := errors.Join(json.Unmarshal([]byte(policy), &whole), json.Unmarshal([]byte(policy),
		&statements)); err != nil {
		return "", err
	}
	for name := range whole { // encoding/json reads names in any case
		if strings.EqualFold(name, "Statement") {
			delete(whole, name)
		}
	}
	whole["Statement"] = append(slices.DeleteFunc(statements.Statement, func(s any) bool {
		return s == nil
	}), further...)
	text, err := json.Marshal(whole)
	return string(text), err
}

func allow(member string, value any, actions ...string) map[string]any {
	return map[string]any{"Effect": "Allow", member: value, "Action": actions}
}

func newDocument(statements ...map[string]any) string {
	text, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": statements})
	if err != nil {
		panic(err) // statements have only texts and lists
	}
	return string(text)
}

// Missing returns the actions that no statement allows. Denied says that a statement
// denies one of them. Only statements for which counts is true count.
func (d Document) Missing(actions []string, counts func(Statement) bool) (missing []string, denied bool) {
	for _, action := range actions {
		allowed := false
		for _, s := range d.Statement {
			if counts(s) && s.About(action) {
				allowed = allowed || s.Effect == "Allow"
				denied = denied || s.Effect == "Deny"
			}
		}
		if !allowed {
			missing = append(missing, action)
		}
	}
	return missing, denied
}
