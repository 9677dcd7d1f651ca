package preflight

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/karpenter"
)

const (
	mostYAML       = 256 << 10 // bytes of a manifest
	karpenterGroup = "karpenter.k8s.aws"
	classKind      = "EC2NodeClass"
)

// ReadNodeClass reads the only EC2NodeClass of a manifest: YAML or JSON, with one or
// more documents, or a List of kubectl. It refuses what the API server would refuse.
// Errors name the file, the line and the field.
func ReadNodeClass(file string, text []byte) (*NodeClass, error) {
	r := &classReader{file: file, left: strictjson.MaxValues}
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
	left  int            // of strictjson.MaxValues
	lines map[string]int // of the fields of the class that is read
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

// wrong is fail for a field, or for the object that should have it.
func (r *classReader) wrong(path, format string, args ...any) {
	at := path
	for r.lines[at] == 0 && strings.Contains(at, ".") {
		at = at[:strings.LastIndex(at, ".")]
	}
	r.fail(r.lines[at], path, format, args...)
}

// printable makes a text of a file safe for a terminal, and short.
func printable(text string) string { return show.Short(text, 400) }

// object reads a Kubernetes object. Those of a List are nested.
func (r *classReader) object(n *yaml.Node, nested bool) {
	n = strictjson.Child(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n.Line, "", "expected a Kubernetes object, found %s", strictjson.Kind(n))
		return
	}
	kind, version := strictjson.Text(n, "kind"), strictjson.Text(n, "apiVersion")
	group, short, _ := strings.Cut(version, "/")
	name := printable(strictjson.Text(n, "metadata", "name"))
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

func (r *classReader) list(n *yaml.Node) {
	items := strictjson.Child(n, "items")
	if items == nil || items.Kind != yaml.SequenceNode {
		r.fail(n.Line, "items", "must be a list")
		return
	}
	for _, item := range items.Content {
		r.object(item, true)
	}
}

func (r *classReader) class(n *yaml.Node, name, version string) {
	before := len(r.errs)
	r.lines = map[string]int{}
	d := strictjson.Decoder{
		Left: &r.left, Version: karpenterGroup + "/" + version, Placed: func(path string, line int) { r.lines[path] = line },
		Fail: func(line int, path, text string) { r.fail(line, path, "%s", text) },
	}
	var read karpenter.NodeClass
	d.Object(n, "", &read)
	if name == "" {
		r.fail(n.Line, "metadata.name", "is missing")
	}
	if r.lines["spec"] == 0 {
		r.fail(n.Line, "spec", "is missing")
	}
	if len(r.errs) > before {
		return
	}
	c := &NodeClass{Name: name, line: n.Line, Version: version, Spec: read.Spec}
	r.rules(c)
	if len(r.errs) > before {
		return
	}
	r.found = append(r.found, c)
}
