package clustersetup

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxDocument bounds the JSON of an IAM document in bytes. IAM allows 10,240
// characters.
const maxDocument = 64 << 10

// document is an IAM policy document. Members that eksnode does not know stay.
type document map[string]any

// statement is one statement of a document.
type statement map[string]any

func readDocument(text string) (document, error) {
	if len(text) > maxDocument {
		return nil, fmt.Errorf("the document has %d bytes, but IAM allows at most 10,240 characters", len(text))
	}
	var d document
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, err
	}
	if d == nil {
		return nil, errors.New("the document is null")
	}
	return d, nil
}

// statements are the document's statements. IAM writes one or a list.
func (d document) statements() []statement {
	var list []statement
	for _, one := range oneOrMore(d["Statement"]) {
		if s, ok := one.(map[string]any); ok {
			list = append(list, s)
		}
	}
	return list
}

// with returns the document with another statement, as JSON.
func (d document) with(s statement) (string, error) {
	d["Statement"] = append(slices.Clone(oneOrMore(d["Statement"])), s)
	text, err := json.Marshal(d)
	return string(text), err
}

// allow is a statement that allows actions.
func allow(member string, value any, actions ...string) statement {
	return statement{"Effect": "Allow", member: value, "Action": actions}
}

// newDocument is a document with statements, as JSON.
func newDocument(statements ...statement) string {
	text, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": statements})
	if err != nil {
		panic(err) // statements have only texts and lists
	}
	return string(text)
}

// missing returns the actions that no statement allows. Denied says that a statement
// denies one of them. Only statements for which about is true count.
func (d document) missing(actions []string, about func(statement) bool) (missing []string, denied bool) {
	for _, action := range actions {
		allowed := false
		for _, s := range d.statements() {
			if !about(s) || !s.names(action) {
				continue
			}
			allowed = allowed || s["Effect"] == "Allow"
			denied = denied || s["Effect"] == "Deny"
		}
		if !allowed {
			missing = append(missing, action)
		}
	}
	return missing, denied
}

// names says whether one of the statement's actions, which may have wildcards,
// includes an action.
func (s statement) names(action string) bool {
	return slices.ContainsFunc(texts(s["Action"]), func(pattern string) bool {
		matches, err := path.Match(strings.ToLower(pattern), strings.ToLower(action))
		return err == nil && matches
	})
}

// trusts says whether the statement is about a service.
func (s statement) trusts(service string) bool {
	switch p := s["Principal"].(type) {
	case string:
		return p == "*"
	case map[string]any:
		named := texts(p["Service"])
		return slices.Contains(named, service) || slices.Contains(named, "ec2.amazonaws.com") && strings.HasPrefix(service, "ec2.")
	}
	return false
}

// oneOrMore is a JSON value that IAM writes as one value or as a list.
func oneOrMore(value any) []any {
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{value}
}

func texts(value any) []string {
	var list []string
	for _, one := range oneOrMore(value) {
		if text, ok := one.(string); ok {
			list = append(list, text)
		}
	}
	return list
}
