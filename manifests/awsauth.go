package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// username is what the authenticator makes the node's name of.
const username = "system:node:{{EC2PrivateDNSName}}"

func (n Node) groups() []string {
	groups := []string{"system:bootstrappers", "system:nodes"}
	if n.Windows {
		groups = append(groups, "eks:kube-proxy-windows")
	}
	return groups
}

// mapped is the role's ARN as the authenticator compares it: without a path.
func (n Node) mapped() string {
	partition, account, name := n.role()
	return fmt.Sprintf("arn:%s:iam::%s:role/%s", partition, account, name)
}

const noAuth = `apiVersion: v1
kind: ConfigMap
metadata:
  name: aws-auth
  namespace: kube-system
data: {}
`

// writeAWSAuth writes the ConfigMap. What an existing one has besides stays, and
// comments before it show what changes.
func writeAWSAuth(n Node) (string, error) {
	old := n.AWSAuth
	if old == nil {
		old = []byte(noAuth)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(old, &document); err != nil {
		return "", fmt.Errorf("reading the ConfigMap: %w", err)
	}
	if len(document.Content) == 0 || value(document.Content[0], "kind") != "ConfigMap" {
		return "", errors.New("reading the ConfigMap: it is none; `kubectl get configmap aws-auth -n kube-system -o yaml` prints it")
	}
	before, err := toYAML(&document)
	if err != nil {
		return "", err
	}
	data := member(document.Content[0], "data")
	if data.Kind != yaml.MappingNode {
		data.Kind, data.Tag, data.Value = yaml.MappingNode, "!!map", ""
	}
	data.Style = 0
	roles := member(data, "mapRoles")
	text, err := n.merge(roles.Value)
	if err != nil {
		return "", err
	}
	roles.Kind, roles.Tag, roles.Style, roles.Value = yaml.ScalarNode, "!!str", yaml.LiteralStyle, text
	after, err := toYAML(&document)
	if err != nil {
		return "", err
	}
	if n.AWSAuth == nil {
		return "# For clusters without an aws-auth: this would take the place of one that is there.\n# Hand that in with --aws-auth, and it is merged.\n" + after, nil
	}
	if before == after {
		return "# Nothing changes.\n" + after, nil
	}
	var b strings.Builder
	b.WriteString("# What changes:\n")
	for _, line := range diff(before, after) {
		b.WriteString("# " + line + "\n")
	}
	return b.String() + after, nil
}

// merge puts the role into mapRoles. A line that is there is put right.
func (n Node) merge(old string) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(old), &document); err != nil {
		return "", fmt.Errorf("reading mapRoles: %w", err)
	}
	if len(document.Content) == 0 {
		document = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.SequenceNode, Tag: "!!seq"}}}
	}
	list := document.Content[0]
	if list.Kind != yaml.SequenceNode {
		return "", errors.New("reading mapRoles: it is no list")
	}
	list.Style = 0
	var line *yaml.Node
	for _, one := range list.Content {
		arn := value(one, "rolearn")
		if arn == n.Role || arn == n.mapped() {
			line = one
		}
	}
	if line == nil {
		line = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		list.Content = append(list.Content, line)
	}
	set(line, "rolearn", n.mapped())
	set(line, "username", username)
	groups := member(line, "groups")
	groups.Kind, groups.Tag, groups.Value = yaml.SequenceNode, "!!seq", ""
	for _, g := range n.groups() {
		if !slices.ContainsFunc(groups.Content, func(old *yaml.Node) bool { return old.Value == g }) {
			groups.Content = append(groups.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: g})
		}
	}
	return toYAML(&document)
}

func toYAML(n *yaml.Node) (string, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return "", err
	}
	return b.String(), nil
}

// member finds an object's member, or puts an empty one there.
func member(object *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			return object.Content[i+1]
		}
	}
	empty := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
	object.Content = append(object.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, empty)
	return empty
}

func value(object *yaml.Node, name string) string {
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			return object.Content[i+1].Value
		}
	}
	return ""
}

func set(object *yaml.Node, name, text string) {
	n := member(object, name)
	n.Kind, n.Tag, n.Value = yaml.ScalarNode, "!!str", text
}

// diff shows two texts' lines with -, + or a space before them.
func diff(before, after string) []string {
	a, b := strings.Split(strings.TrimSuffix(before, "\n"), "\n"), strings.Split(strings.TrimSuffix(after, "\n"), "\n")
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var lines []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			lines = append(lines, "  "+a[i])
			i++
			j++
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			lines = append(lines, "- "+a[i])
			i++
		default:
			lines = append(lines, "+ "+b[j])
			j++
		}
	}
	return lines
}
