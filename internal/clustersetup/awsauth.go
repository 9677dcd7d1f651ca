package clustersetup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// PrintAuth prints the ConfigMap from the API server.
const PrintAuth = "kubectl get configmap aws-auth -n kube-system -o yaml"

// EditAuth opens the ConfigMap in an editor.
const EditAuth = "kubectl edit configmap aws-auth -n kube-system"

// createOnly is a UID that no object has. The API server gives a created object
// another UID and refuses to change an object whose UID differs. A manifest with
// this UID therefore creates, and never replaces.
const createOnly = "00000000-0000-0000-0000-000000000000"

const noAuth = `apiVersion: v1
kind: ConfigMap
metadata:
  name: aws-auth
  namespace: kube-system
data: {}
`

const creates = `# This creates aws-auth in a cluster without one. If aws-auth exists, the
# API server refuses it, because of the uid, and nothing is replaced.
`

// mostAuth bounds the text of the ConfigMap in bytes. Kubernetes stores up to 1
// MiB.
const mostAuth = 4 << 20

// writeAWSAuth writes a ConfigMap that is safe to apply: either with the
// resourceVersion of the ConfigMap that it was merged with, or so that it can only
// create.
func writeAWSAuth(n Node) (string, error) {
	mode := n.Found.Cluster.AuthenticationMode
	if mode == "API" {
		return "", blocked("the authentication mode of the cluster %s is API, which ignores aws-auth: use access-entry",
			n.Cluster)
	}
	old := n.AWSAuth
	if old == nil {
		old = []byte(noAuth)
	}
	document, err := readAuth(old)
	if err != nil {
		return "", fmt.Errorf("reading the ConfigMap: %w", err)
	}
	metadata, data := strictjson.Child(document.Content[0], "metadata"), strictjson.Child(document.Content[0], "data")
	var head strings.Builder
	if e := n.Found.Entry; e != nil && e.Type == n.EntryType() && mode != ConfigMap {
		head.WriteString("# The role has an access entry, so aws-auth does not need the role.\n")
	}
	version := strictjson.Text(metadata, "resourceVersion")
	if version == "" || version == "0" { // 0 would replace any ConfigMap
		remove(metadata, "resourceVersion")
		set(metadata, "uid", createOnly)
		if n.AWSAuth != nil {
			head.WriteString("# The given ConfigMap has no resourceVersion, which would reveal later changes.\n")
		}
		head.WriteString(creates + "# To merge with that one: " + n.MergeAuth() + "\n")
	}
	roles := member(data, "mapRoles")
	before := roles.Value
	text, notes, err := n.merge(before)
	if err != nil {
		return "", err
	}
	if text != before {
		roles.Kind, roles.Tag, roles.Style, roles.Value = yaml.ScalarNode, "!!str", yaml.LiteralStyle, text
	}
	after, err := written(document, old, text)
	if err != nil {
		return "", err
	}
	for _, note := range notes {
		head.WriteString("# " + note + "\n")
	}
	switch {
	case before == text:
		head.WriteString("# Nothing changes.\n")
	case n.AWSAuth != nil:
		head.WriteString("# What changes in mapRoles:\n")
		for _, line := range diff(before, text) {
			head.WriteString("# " + line + "\n")
		}
	}
	return head.String() + after, nil
}

// MergeAuth is the command that adds the role to the cluster's aws-auth and keeps
// everything else.
func (n Node) MergeAuth() string {
	flags := ""
	if n.Windows {
		flags = " --windows"
	}
	return PrintAuth + " | eksnode manifests --cluster " + n.Cluster + " --role " + n.Role +
		" --only aws-auth --aws-auth -" + flags + " | kubectl apply -f -"
}

// MappedRole is a line of mapRoles.
type MappedRole struct {
	ARN      string `yaml:"rolearn"`
	Username string
	Groups   []string
}

// MappedRoles reads the lines of a ConfigMap.
func MappedRoles(text []byte) (lines []MappedRole, err error) {
	document, err := readAuth(text)
	if err == nil {
		err = yaml.Unmarshal([]byte(strictjson.Text(document.Content[0], "data", "mapRoles")), &lines)
	}
	if err != nil {
		return nil, fmt.Errorf("reading aws-auth: %w", err)
	}
	return lines, nil
}

func readAuth(text []byte) (*yaml.Node, error) {
	switch {
	case len(text) > mostAuth:
		return nil, fmt.Errorf("the ConfigMap has %d bytes, but Kubernetes stores at most 1 MiB", len(text))
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("the input is empty; `" + PrintAuth + "` prints it, and a cluster without aws-auth " +
			"needs no --aws-auth")
	}
	var document yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&document); err != nil {
		return nil, located(string(text), err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the input has more than one document; `" + PrintAuth + "` prints one")
	}
	object := document.Content[0]
	if strictjson.Text(object, "kind") != "ConfigMap" {
		return nil, errors.New("the input is not a ConfigMap; `" + PrintAuth + "` prints it")
	}
	if metadata := strictjson.Child(object, "metadata"); metadata != nil {
		name, namespace := strictjson.Text(metadata, "name"), strictjson.Text(metadata, "namespace")
		if name != "" && name != "aws-auth" || namespace != "" && namespace != "kube-system" {
			return nil, fmt.Errorf("the ConfigMap is %q in the namespace %q; `%s` prints aws-auth", name, namespace,
				PrintAuth)
		}
	}
	for _, part := range []string{"metadata", "data"} {
		if n := mapping(object, part); n.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("line %d: %s is not an object", n.Line, part)
		}
	}
	set(strictjson.Child(object, "metadata"), "name", "aws-auth")
	set(strictjson.Child(object, "metadata"), "namespace", "kube-system")
	data := strictjson.Child(object, "data")
	data.Style = 0
	for i := 0; i+1 < len(data.Content); i += 2 {
		if err := checkMapping(data.Content[i].Value, data.Content[i+1]); err != nil {
			return nil, err
		}
	}
	return &document, nil
}

// checkMapping refuses content that the authenticator could not read: the
// authenticator would then use no part of the ConfigMap.
func checkMapping(name string, text *yaml.Node) error {
	kinds := map[string]yaml.Kind{"mapRoles": yaml.MappingNode, "mapUsers": yaml.MappingNode,
		"mapAccounts": yaml.ScalarNode}
	kind, known := kinds[name]
	if !known {
		return nil
	}
	if text.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %s is not a string", text.Line, name)
	}
	_, err := entries(name, text.Value, kind)
	return err
}

// entries reads a list in a text of the ConfigMap, or nil when there is none.
func entries(name, text string, kind yaml.Kind) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, located(text, err))
	}
	if len(document.Content) == 0 || document.Content[0].ShortTag() == "!!null" {
		return nil, nil
	}
	list := document.Content[0]
	if list.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("reading %s: line %d: %s is not a list", name, list.Line, name)
	}
	for _, one := range list.Content {
		if strictjson.Child(one).Kind != kind {
			return nil, fmt.Errorf("reading %s: line %d: the authenticator cannot read this entry", name, one.Line)
		}
	}
	return list, nil
}

// located corrects the line of a YAML error. The parser names the line before the
// error, or the line where the part begins. The fault is after the lines that can
// be parsed alone.
func located(text string, err error) error {
	lines := strings.SplitAfter(text, "\n")
	broken := 1 + sort.Search(len(lines), func(n int) bool {
		return yaml.Unmarshal([]byte(strings.Join(lines[:n+1], "")), new(yaml.Node)) != nil
	})
	said := strings.TrimPrefix(err.Error(), "yaml: ")
	if number, rest, found := strings.Cut(strings.TrimPrefix(said, "line "), ": "); found {
		if n, err := strconv.Atoi(number); err == nil {
			said, broken = rest, max(n, broken)
		}
	}
	return fmt.Errorf("line %d: %s", min(broken, len(lines)), said)
}

// written writes the document and checks that only mapRoles and the fields that
// make applying safe have changed.
func written(document *yaml.Node, old []byte, roles string) (string, error) {
	text, err := strictjson.WriteYAML(document)
	if err != nil {
		return "", err
	}
	var before, after struct {
		Metadata map[string]any
		Data     map[string]any
		Rest     map[string]any `yaml:",inline"`
	}
	if err := cmp.Or(yaml.Unmarshal(old, &before), yaml.Unmarshal([]byte(text), &after)); err != nil {
		return "", fmt.Errorf("comparing the merged ConfigMap with the original: %w", err)
	}
	if after.Data["mapRoles"] != roles {
		return "", errors.New("comparing the merged ConfigMap with the original: mapRoles cannot be kept as it is")
	}
	delete(before.Data, "mapRoles")
	delete(after.Data, "mapRoles")
	for _, ours := range []string{"name", "namespace", "uid", "resourceVersion"} {
		delete(before.Metadata, ours)
		delete(after.Metadata, ours)
	}
	same := func(a, b map[string]any) bool { return len(a)+len(b) == 0 || reflect.DeepEqual(a, b) }
	if !same(before.Data, after.Data) || !same(before.Metadata, after.Metadata) || !same(before.Rest, after.Rest) {
		return "", errors.New("comparing the merged ConfigMap with the original: more than mapRoles would change")
	}
	return text, nil
}

// member is an object's member. A missing one is added as an empty text.
func member(object *yaml.Node, name string) *yaml.Node {
	if there := strictjson.Child(object, name); there != nil {
		return there
	}
	empty := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
	object.Content = append(object.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, empty)
	return empty
}

// mapping is an object's member that is an object. A missing one is added empty.
func mapping(object *yaml.Node, name string) *yaml.Node {
	n := member(object, name)
	if n.Kind == yaml.ScalarNode && (n.Value == "" || n.ShortTag() == "!!null") {
		n.Kind, n.Tag, n.Value, n.Style = yaml.MappingNode, "!!map", "", 0
	}
	return n
}

func set(object *yaml.Node, name, text string) {
	n := member(object, name)
	n.Kind, n.Tag, n.Value = yaml.ScalarNode, "!!str", text
}

func remove(object *yaml.Node, name string) {
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			object.Content = append(object.Content[:i:i], object.Content[i+2:]...)
			return
		}
	}
}

// diff returns the lines that differ between two texts, with - and + before them.
func diff(before, after string) []string {
	a, b := strings.Split(strings.TrimSuffix(before, "\n"), "\n"), strings.Split(strings.TrimSuffix(after, "\n"), "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return slices.Concat(show.Each(a, func(line string) string { return "- " + line }),
		show.Each(b, func(line string) string { return "+ " + line }))
}
