package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/karpenter"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// NodeClass is Karpenter's EC2NodeClass.
type NodeClass struct {
	// File is the file's name, or - for standard input.
	File string
	Name string
	// Version is v1 or v1beta1.
	Version string
	karpenter.Spec

	line int
}

type term = karpenter.Term

func (c *NodeClass) file() string {
	if c.File == "-" {
		return "FILE"
	}
	return c.File
}

// rules checks the rules between fields that the API server checks.
func (r *classReader) rules(c *NodeClass) {
	if (c.Role == "") == (c.InstanceProfile == "") {
		r.wrong("spec", "must have either role or instanceProfile")
	}
	if strings.HasPrefix(c.Role, "arn:") {
		r.wrong("spec.role", "%q is an ARN; Karpenter needs the role's name", c.Role)
	}
	r.terms("subnetSelectorTerms", c.Subnets, "subnet-", "tags", "id")
	r.terms("securityGroupSelectorTerms", c.Groups, "sg-", "tags", "id", "name")
	if c.Version == "v1" || len(c.AMIs) > 0 || c.AMIFamily == "Custom" {
		r.terms("amiSelectorTerms", c.AMIs, "ami-", "tags", "id", "name", "owner", "alias", "ssmParameter")
	}
	r.family(c)
	for key := range c.Tags {
		if strings.HasPrefix(key, "kubernetes.io/cluster") || slices.Contains(reservedTags, key) {
			r.wrong("spec.tags."+key, "this tag is Karpenter's own; leave it out")
		}
		if key == "" {
			r.wrong("spec.tags", "a tag has an empty key")
		}
	}
	roots := 0
	for i, d := range c.Devices {
		path := fmt.Sprintf("spec.blockDeviceMappings[%d]", i)
		if d.Root {
			roots++
		}
		if e := d.EBS; e != nil && e.Snapshot == "" && e.Size == "" {
			r.wrong(path+".ebs", "must have snapshotID or volumeSize")
		} else if e != nil && e.Snapshot == "" && e.Rate > 0 {
			r.wrong(path+".ebs.volumeInitializationRate", "needs snapshotID")
		}
	}
	if roots > 1 {
		r.wrong("spec.blockDeviceMappings", "only one of them may have rootVolume")
	}
}

func (r *classReader) terms(name string, terms []term, prefix string, known ...string) {
	if len(terms) == 0 {
		r.wrong("spec."+name, "must have at least one term")
	}
	if len(terms) > 30 {
		r.wrong("spec."+name, "must have at most 30 terms")
	}
	for i, t := range terms {
		path := fmt.Sprintf("spec.%s[%d]", name, i)
		for _, field := range []string{"name", "owner", "alias", "ssmParameter"} {
			if r.lines[path+"."+field] > 0 && !slices.Contains(known, field) {
				r.wrong(path+"."+field, "unknown field; known are %s", strings.Join(known, ", "))
			}
		}
		for key, value := range t.Tags {
			if key == "" {
				r.wrong(path+".tags", "a tag has an empty key")
			} else if value == "" {
				r.wrong(path+".tags."+key, `is empty; write "*" for any value`)
			}
		}
		switch {
		case t.ID == "" && t.Name == "" && t.Alias == "" && t.SSMParameter == "" && len(t.Tags) == 0:
			r.wrong(path, "must have one of %s", strings.Join(known, ", "))
		case t.ID != "" && !strings.HasPrefix(t.ID, prefix):
			r.wrong(path+".id", "%q does not begin with %s", t.ID, prefix)
		case t.ID != "" && (t.Name != "" || t.Owner != "" || t.Alias != "" || len(t.Tags) > 0):
			r.wrong(path, "id must be alone in its term")
		case t.Alias != "" && (t.Name != "" || t.Owner != "" || len(t.Tags) > 0):
			r.wrong(path, "alias must be alone in its term")
		case t.Alias != "" && len(terms) > 1:
			r.wrong(path, "a term with alias must be the only term")
		case name == "securityGroupSelectorTerms" && t.Name != "" && len(t.Tags) > 0:
			r.wrong(path, "name must be alone in its term")
		case len(t.Tags) > 20:
			r.wrong(path+".tags", "must have at most 20 tags")
		case strings.HasPrefix(t.Alias, "windows") && !strings.HasSuffix(t.Alias, "@latest"):
			r.wrong(path+".alias", "%q must have the version latest, as all aliases for Windows", t.Alias)
		case len(t.Alias) > 30:
			r.wrong(path+".alias", "%q is longer than 30 characters", t.Alias)
		}
	}
}

func (r *classReader) family(c *NodeClass) {
	ofAlias, _, _ := strings.Cut(c.alias(), "@")
	switch {
	case c.AMIFamily == "" && (ofAlias == "" || c.Version != "v1"):
		r.wrong("spec.amiFamily", "is missing; only a term with alias makes it optional")
	case c.AMIFamily == "Ubuntu" && c.Version == "v1", c.AMIFamily == "Windows2025" && c.Version != "v1":
		r.wrong("spec.amiFamily", "%q is not known in karpenter.k8s.aws/%s", c.AMIFamily, c.Version)
	case ofAlias != "" && c.AMIFamily != "" && c.AMIFamily != "Custom" && !strings.EqualFold(c.AMIFamily, ofAlias):
		r.wrong("spec.amiFamily", "%q does not fit the alias %s", c.AMIFamily, c.alias())
	}
}

// anything is a selector term for the package userdata, which only needs one.
var anything = []term{{ID: "-"}}

// checked checks a class with a spec of its own. Its text is not the file, so it has no lines.
func (c *NodeClass) checked(spec karpenter.Spec) (userdata.Report, error) {
	text, err := yaml.Marshal(karpenter.New(map[string]any{"name": c.Name}, spec))
	if err != nil {
		return userdata.Report{}, err
	}
	r, err := userdata.Check(text, "karpenter")
	for i := range r.Problems {
		r.Problems[i].Line = 0
	}
	return r, err
}

func (c *NodeClass) kubeletFaults() []string {
	if c.Kubelet == nil {
		return nil
	}
	r, err := c.checked(karpenter.Spec{
		Role: "node", AMIFamily: "AL2023", Kubelet: c.Kubelet, Subnets: anything, Groups: anything, AMIs: anything,
	})
	if err != nil {
		return []string{err.Error()}
	}
	return show.Each(r.Problems, userdata.Problem.String)
}

// alias is the alias of EKS's own images, or empty.
func (c *NodeClass) alias() string {
	for _, t := range c.AMIs {
		if t.Alias != "" {
			return t.Alias
		}
	}
	return ""
}

// publisher says that Karpenter selects one of EKS's own images, or is empty.
func (c *NodeClass) publisher() string {
	switch {
	case c.alias() != "":
		return "Karpenter selects EKS's own image " + c.alias()
	case len(c.AMIs) == 0:
		return "Karpenter selects EKS's own image for " + c.AMIFamily
	}
	return ""
}

// launch are the settings with which Karpenter starts instances
// (https://karpenter.sh/docs/concepts/nodeclasses/).
func (c *NodeClass) launch(s selected, cluster string) awsapi.Launch {
	return awsapi.Launch{
		From: "the EC2NodeClass " + c.Name, Profile: c.InstanceProfile, UserData: []byte(c.UserData),
		PublicAddress:  c.PublicAddress,
		SecurityGroups: s.groups.value, Tokens: cmp.Or(c.Metadata.Tokens, "required"),
		HopLimit:   cmp.Or(c.Metadata.HopLimit, 1),
		NoMetadata: c.Metadata.Endpoint == "disabled", Tags: map[string]string{"kubernetes.io/cluster/" +
			cluster: "owned"},
	}
}

// userData checks the class's user data. Karpenter writes its own, and merges the
// class's unless the family is Custom.
func (c *NodeClass) userData() fact[userdata.Report] {
	if c.UserData == "" && c.AMIFamily != "Custom" {
		return fact[userdata.Report]{}
	}
	spec := c.Spec
	spec.Kubelet = nil
	if len(spec.AMIs) == 0 { // optional in v1beta1
		spec.AMIs = anything
	}
	return learn(c.checked(spec))
}

func (c *NodeClass) family() string {
	r, err := userdata.Check([]byte(c.UserData), "")
	if err != nil {
		return ""
	}
	return r.Family
}

func (c *NodeClass) keys() []string {
	var keys []string
	for _, d := range c.Devices {
		if d.EBS != nil && d.EBS.Key != "" {
			keys = append(keys, d.EBS.Key)
		}
	}
	return keys
}

// reservedTags are the tags that Karpenter sets itself. A class with one of them
// is refused.
var reservedTags = []string{"eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim",
	"karpenter.sh/managed-by", "karpenter.k8s.aws/ec2nodeclass"}

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
		return nil, fmt.Errorf("%s: there are %d EC2NodeClasses: %s; pass one of them, for example with `kubectl get "+
			"ec2nodeclass NAME -o yaml | eksnode preflight --cluster CLUSTER --nodeclass -`",
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
		r.fail(n.Line, "apiVersion", "%q is not known for an EC2NodeClass; known are karpenter.k8s.aws/v1 and "+
			"karpenter.k8s.aws/v1beta1", version)
	case kind == "NodeClass" && group == "eks.amazonaws.com":
		r.fail(n.Line, "kind", "%s is a NodeClass of EKS Auto Mode, which runs only AWS's own images; your own images "+
			"need Karpenter's EC2NodeClass (karpenter.k8s.aws/v1) or a node group", name)
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
		Left: &r.left, Version: karpenterGroup + "/" + version, Placed: func(path string, line int) {
			r.lines[path] = line
		},
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
