package preflight

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

const (
	// mostYAML bounds a manifest, in bytes, and mostNodes its values, with every use
	// of an alias counted.
	mostYAML, mostNodes = 256 << 10, 20_000
	karpenterGroup      = "karpenter.k8s.aws"
	classKind           = "EC2NodeClass"
)

// ReadNodeClass reads the only EC2NodeClass of a manifest: YAML or JSON, with one or
// more documents, or a List of kubectl. It refuses what the API server would refuse.
// Errors name the file, the line and the field.
func ReadNodeClass(file string, text []byte) (*NodeClass, error) {
	r := &classReader{file: file}
	if file == "-" {
		r.file = "standard input"
	}
	switch {
	case strings.TrimSpace(string(text)) == "":
		return nil, fmt.Errorf("%s: the manifest is empty; `kubectl get ec2nodeclass NAME -o yaml` prints it", r.file)
	case len(text) > mostYAML:
		return nil, fmt.Errorf("%s: the manifest has more than %d KiB", r.file, mostYAML>>10)
	}
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	for {
		var document yaml.Node
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s", r.file, printable(strings.TrimPrefix(err.Error(), "yaml: ")))
		}
		if len(document.Content) > 0 {
			r.object(document.Content[0], false)
		}
	}
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	switch len(r.found) {
	case 0:
		return nil, fmt.Errorf("%s: there is no EC2NodeClass", r.file)
	case 1:
	default:
		names := show.Each(r.found, func(c *NodeClass) string { return fmt.Sprintf("%s (line %d)", c.Name, c.line) })
		return nil, fmt.Errorf("%s: there are %d EC2NodeClasses: %s; pass one of them, for example with `kubectl get ec2nodeclass NAME -o yaml | eksnode preflight --cluster CLUSTER --nodeclass -`",
			r.file, len(names), strings.Join(names, ", "))
	}
	c := r.found[0]
	c.File = file
	return c, nil
}

// classReader collects the classes and faults of a manifest.
type classReader struct {
	file  string
	nodes int
	found []*NodeClass
	errs  []error
}

func (r *classReader) fail(line int, path, format string, args ...any) {
	if path != "" {
		path += ": "
	}
	if len(r.errs) < 50 {
		r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.file, line, printable(path+fmt.Sprintf(format, args...))))
	}
}

// printable makes a text of a file safe for a terminal, and short.
func printable(text string) string { return show.Short(text, 400) }

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// members are the names and values of an object, in order.
func members(n *yaml.Node) []*yaml.Node {
	if n = resolve(n); n.Kind != yaml.MappingNode {
		return nil
	}
	return n.Content[:len(n.Content)/2*2]
}

// member is a value of an object, or nil.
func member(n *yaml.Node, name string) *yaml.Node {
	for pair := range slices.Chunk(members(n), 2) {
		if pair[0].Value == name {
			return resolve(pair[1])
		}
	}
	return nil
}

// word is the text of a member, or empty.
func word(n *yaml.Node, name string) string {
	if m := member(n, name); m != nil && m.Kind == yaml.ScalarNode {
		return m.Value
	}
	return ""
}

// object reads a Kubernetes object. Those of a List are nested.
func (r *classReader) object(n *yaml.Node, nested bool) {
	n = resolve(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, "", "expected a Kubernetes object, found %s", kindOf(n))
		return
	}
	kind, version := word(n, "kind"), word(n, "apiVersion")
	group, short, _ := strings.Cut(version, "/")
	name := printable(word(member2(n, "metadata"), "name"))
	switch {
	case kind == "List" && version == "v1" && !nested || kind == classKind+"List" && group == karpenterGroup && !nested:
		r.list(n)
	case kind == classKind && group == karpenterGroup && (short == "v1" || short == "v1beta1"):
		r.class(n, name, short)
	case kind == classKind:
		r.fail(n.Line, "apiVersion", "%q is not known for an EC2NodeClass; known are karpenter.k8s.aws/v1 and karpenter.k8s.aws/v1beta1", version)
	case kind == "NodeClass" && group == "eks.amazonaws.com":
		r.fail(n.Line, "kind", "%s is a NodeClass of EKS Auto Mode, which runs only AWS's own images; your own images need Karpenter's EC2NodeClass (karpenter.k8s.aws/v1) or a node group", name)
	case kind == "AWSNodeTemplate":
		r.fail(n.Line, "kind", "%s is an AWSNodeTemplate of Karpenter before 0.32; convert it to an EC2NodeClass", name)
	case group == "karpenter.sh": // NodePools are often in the same file
	case kind == "":
		r.fail(n.Line, "kind", "is missing")
	default:
		r.fail(n.Line, "kind", "%s (%s) is not an EC2NodeClass", kind, version)
	}
}

// member2 is member for a value that may be missing: it returns an empty object.
func member2(n *yaml.Node, name string) *yaml.Node {
	if m := member(n, name); m != nil {
		return m
	}
	return &yaml.Node{Kind: yaml.MappingNode}
}

func (r *classReader) list(n *yaml.Node) {
	items := member(n, "items")
	if items == nil || items.Kind != yaml.SequenceNode {
		r.fail(n.Line, "items", "must be a list")
		return
	}
	for _, item := range items.Content {
		if r.nodes++; r.nodes > mostNodes {
			r.fail(n.Line, "items", "has more than %d values", mostNodes)
			return
		}
		r.object(item, true)
	}
}

// class reads an EC2NodeClass.
func (r *classReader) class(n *yaml.Node, name, version string) {
	before := len(r.errs)
	for pair := range slices.Chunk(members(n), 2) {
		if key := pair[0].Value; !slices.Contains([]string{"apiVersion", "kind", "metadata", "spec", "status"}, key) {
			r.fail(pair[0].Line, key, "unknown field")
		}
	}
	if name == "" {
		r.fail(n.Line, "metadata.name", "is missing")
	}
	spec := member(n, "spec")
	if spec == nil || spec.Kind != yaml.MappingNode {
		r.fail(n.Line, "spec", "is missing")
		return
	}
	r.fields(spec, "spec", classFields(), version)
	if len(r.errs) > before {
		return
	}
	c := &NodeClass{Name: name, line: n.Line, Version: version}
	if err := spec.Decode(&c.classSpec); err != nil {
		r.fail(spec.Line, "spec", "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	r.rules(c, spec)
	if err := c.split(spec); err != nil {
		r.fail(spec.Line, "spec", "%s", err)
	}
	if len(r.errs) == before {
		r.found = append(r.found, c)
	}
}

func (r *classReader) fields(n *yaml.Node, path string, known map[string]field, version string) {
	seen := map[string]int{}
	for pair := range slices.Chunk(members(n), 2) {
		key, value := pair[0], resolve(pair[1])
		inner := path + "." + key.Value
		f, there := known[key.Value]
		switch {
		case seen[key.Value] > 0:
			r.fail(key.Line, inner, "this field is already set in line %d", seen[key.Value])
		case !there:
			r.fail(key.Line, inner, "unknown field%s", show.Meant(key.Value, slices.Collect(maps.Keys(known))))
		case f.only != "" && f.only != version:
			r.fail(key.Line, inner, "karpenter.k8s.aws/%s does not have this field", version)
		default:
			r.value(value, inner, f, version)
		}
		seen[key.Value] = key.Line
	}
}

func (r *classReader) value(n *yaml.Node, path string, f field, version string) {
	if r.nodes++; r.nodes > mostNodes {
		r.fail(n.Line, path, "the manifest has more than %d values", mostNodes)
		return
	}
	scalar := n.Kind == yaml.ScalarNode
	switch f.kind {
	case "any":
		if n.Kind != yaml.MappingNode {
			r.fail(n.Line, path, "expected an object, found %s", kindOf(n))
		}
	case "text":
		if !scalar || n.Tag != "!!str" {
			r.fail(n.Line, path, "expected a text, found %s", kindOf(n))
			return
		}
		r.text(n, path, f)
	case "truth":
		if !scalar || n.Tag != "!!bool" {
			r.fail(n.Line, path, "expected true or false, found %s", kindOf(n))
		}
	case "number":
		number, err := strconv.Atoi(n.Value)
		switch {
		case !scalar || n.Tag != "!!int" || err != nil:
			r.fail(n.Line, path, "expected a whole number, found %s", kindOf(n))
		case number < f.least || f.most > 0 && number > f.most:
			r.fail(n.Line, path, "%d is not between %d and %d", number, f.least, f.most)
		}
	case "object":
		if n.Kind != yaml.MappingNode {
			r.fail(n.Line, path, "expected an object, found %s", kindOf(n))
			return
		}
		r.fields(n, path, f.of, version)
	case "list":
		if n.Kind != yaml.SequenceNode {
			r.fail(n.Line, path, "expected a list, found %s", kindOf(n))
			return
		}
		for i, item := range n.Content {
			r.value(resolve(item), fmt.Sprintf("%s[%d]", path, i), field{kind: "object", of: f.of}, version)
		}
	case "map":
		r.texts(n, path, f)
	}
}

func (r *classReader) text(n *yaml.Node, path string, f field) {
	switch {
	case n.Value == "":
		r.fail(n.Line, path, "is empty")
	case len(f.values) > 0 && !slices.Contains(f.values, n.Value):
		r.fail(n.Line, path, "%q is not known; known are %s", n.Value, strings.Join(f.values, ", "))
	case f.pattern != "" && !regexp.MustCompile(f.pattern).MatchString(n.Value):
		r.fail(n.Line, path, "%q does not match %s", n.Value, f.pattern)
	}
}

func (r *classReader) texts(n *yaml.Node, path string, f field) {
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, path, "expected an object, found %s", kindOf(n))
		return
	}
	seen := map[string]int{}
	for pair := range slices.Chunk(members(n), 2) {
		if r.nodes++; r.nodes > mostNodes {
			r.fail(n.Line, path, "the manifest has more than %d values", mostNodes)
			return
		}
		key, value := pair[0], resolve(pair[1])
		inner := path + "." + key.Value
		switch {
		case key.Value == "":
			r.fail(key.Line, path, "a tag has an empty key")
		case seen[key.Value] > 0:
			r.fail(key.Line, inner, "this tag is already set in line %d", seen[key.Value])
		case value.Kind != yaml.ScalarNode || value.Tag != "!!str":
			r.fail(value.Line, inner, "expected a text, found %s; put the value in quotes", kindOf(value))
		case value.Value == "" && f.filled:
			r.fail(value.Line, inner, `is empty; write "*" for any value`)
		}
		seen[key.Value] = key.Line
	}
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "an object"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	case n.Tag == "!!bool":
		return "true or false"
	case n.Tag == "!!int", n.Tag == "!!float":
		return "a number"
	}
	return "a text"
}
