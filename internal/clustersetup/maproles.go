package clustersetup

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// Username is the template from which the authenticator makes the node's name.
const Username = "system:node:{{EC2PrivateDNSName}}"

// Groups are the groups of nodes in aws-auth.
func Groups(windows bool) []string {
	groups := []string{"system:bootstrappers", "system:nodes"}
	if windows {
		groups = append(groups, "eks:kube-proxy-windows")
	}
	return groups
}

// Mapped is the role's ARN without a path, as the authenticator compares it.
func (n Node) Mapped() string {
	partition, account, name := n.role()
	return fmt.Sprintf("arn:%s:iam::%s:role/%s", partition, account, name)
}

// edit is one change of a text: an insertion at a place.
type edit struct {
	at   int
	text string
}

// merge adds the role to mapRoles and keeps the rest as it is written. An existing
// entry of the role gets its missing groups.
func (n Node) merge(old string) (text string, notes []string, err error) {
	list, err := entries("mapRoles", old, yaml.MappingNode)
	if err != nil {
		return "", nil, err
	}
	if list == nil {
		list = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Column: 1}
	}
	var own *yaml.Node
	for _, one := range list.Content {
		switch arn := strictjson.Text(one, "rolearn"); {
		case strings.EqualFold(arn, n.Mapped()):
			own = strictjson.Child(one) // the authenticator uses the last entry
		case strings.EqualFold(arn, n.Role):
			notes = append(notes,
				fmt.Sprintf("Line %d of mapRoles names the role with its path, which the authenticator ignores. The "+
					"line stays, and an entry without the path is added.", one.Line))
		}
	}
	if own == nil {
		text, err = n.added(old, list)
		return text, notes, err
	}
	if said := strictjson.Text(own, "username"); said != Username {
		return "", nil, fmt.Errorf("merging mapRoles: line %d gives %s the username %q, but nodes need %s: other "+
			"users may need the entry, so give these nodes their own role, or change the entry with `%s`", own.Line,
			n.Mapped(), said, Username, EditAuth)
	}
	missing := slices.DeleteFunc(Groups(n.Windows), func(g string) bool {
		groups := strictjson.Child(own, "groups")
		return groups != nil && slices.ContainsFunc(groups.Content, func(had *yaml.Node) bool {
			return strictjson.Text(had) == g
		})
	})
	if len(missing) == 0 {
		return old, notes, nil
	}
	notes = append(notes, fmt.Sprintf("Line %d of mapRoles has the role already. Its entry also gets %s.", own.Line,
		strings.Join(missing, ", ")))
	text, err = completed(old, list, own, missing)
	return text, notes, err
}

func (n Node) entry(indent string) string {
	text := indent + "- rolearn: " + n.Mapped() + "\n" + indent + "  username: " + Username + "\n" + indent +
		"  groups:\n"
	for _, g := range Groups(n.Windows) {
		text += indent + "    - " + g + "\n"
	}
	return text
}

func (n Node) added(old string, list *yaml.Node) (string, error) {
	var edits []edit
	if list.Style&yaml.FlowStyle == 0 {
		entry := n.entry(strings.Repeat(" ", list.Column-1))
		if old != "" && !strings.HasSuffix(old, "\n") {
			entry = "\n" + entry
		}
		edits = []edit{{len(old), entry}}
	} else {
		flow := fmt.Sprintf("{rolearn: %q, username: %q, groups: [%q]}", n.Mapped(), Username,
			strings.Join(Groups(n.Windows), `", "`))
		flow = strings.ReplaceAll(flow, `\"`, `"`)
		// The last bracket may be in a comment after the list.
		for at, tries := strings.LastIndex(old, "]"), 0; at >= 0 && tries < 8; at, tries = strings.LastIndex(old[:at],
			"]"), tries+1 {
			edits = append(edits, edit{at, ", " + flow}, edit{at, flow})
		}
	}
	var fresh yaml.Node
	if err := yaml.Unmarshal([]byte(n.entry("")), &fresh); err != nil {
		return "", fmt.Errorf("writing mapRoles: %w", err)
	}
	list.Content = append(list.Content, fresh.Content[0].Content...)
	return apply(old, list, edits)
}

// completed adds groups to an entry of a list.
func completed(old string, list, own *yaml.Node, missing []string) (string, error) {
	var edits []edit
	groups := member(own, "groups")
	if groups.Anchor+own.Anchor != "" {
		return "", fmt.Errorf("merging mapRoles: line %d: other entries may have these groups by an alias of YAML: "+
			"add %s with `%s`", own.Line, strings.Join(missing, ", "), EditAuth)
	}
	if last := len(groups.Content) - 1; last >= 0 {
		at := offset(old, groups.Content[last])
		if groups.Style&yaml.FlowStyle == 0 {
			lineEnd := strings.IndexByte(old[at:]+"\n", '\n')
			indent := "\n" + strings.Repeat(" ", groups.Column-1) + "- "
			edits = []edit{{at + lineEnd, indent + strings.Join(missing, indent)}}
		} else {
			quoted := `, "` + strings.Join(missing, `", "`) + `"`
			length := len(groups.Content[last].Value)
			edits = []edit{{at + length, quoted}, {at + length + 2, quoted}} // unquoted, and in quotes
		}
	}
	groups.Kind, groups.Tag, groups.Value = yaml.SequenceNode, "!!seq", ""
	for _, g := range missing {
		groups.Content = append(groups.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: g})
	}
	return apply(old, list, edits)
}

// apply uses the first edit whose result contains exactly the wanted entries. When
// none does, it writes the whole list again.
func apply(old string, list *yaml.Node, edits []edit) (string, error) {
	var want []any
	if err := list.Decode(&want); err != nil {
		return "", fmt.Errorf("merging mapRoles: %w", err)
	}
	anew, err := strictjson.WriteYAML(list)
	if err != nil {
		return "", fmt.Errorf("writing mapRoles: %w", err)
	}
	var texts []string
	for _, e := range edits {
		if e.at <= len(old) {
			texts = append(texts, old[:e.at]+e.text+old[e.at:])
		}
	}
	for _, text := range append(texts, anew) {
		var got []any
		if yaml.Unmarshal([]byte(text), &got) == nil && reflect.DeepEqual(got, want) {
			return text, nil
		}
	}
	return "", fmt.Errorf("merging mapRoles: line %d: eksnode cannot add to a list in this form", list.Line)
}

func offset(text string, n *yaml.Node) int {
	at := 0
	for range n.Line - 1 {
		at += strings.IndexByte(text[at:], '\n') + 1
	}
	for range n.Column - 1 {
		for at++; at < len(text) && text[at]&0xC0 == 0x80; at++ { // the remaining bytes of a character
		}
	}
	return min(at, len(text))
}
