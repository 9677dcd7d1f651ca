package userdata

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/karpenter"
)

// unregistered is the taint that Karpenter demands of nodes whose user data it
// does not write itself
// (https://karpenter.sh/docs/concepts/nodeclasses/#specamifamily). Without the
// taint, Karpenter 1.0 to 1.2 fails, and newer versions log an error and register
// the node (sigs.k8s.io/karpenter, pkg/controllers/nodeclaim/lifecycle,
// registration.go).
const unregistered = "karpenter.sh/unregistered:NoExecute"

var amiID = show.Regexp(`^ami-[0-9a-f]{8,17}$`)

func (n Node) needsAMI() error {
	if !amiID().MatchString(n.AMI) {
		return fmt.Errorf("ami: %q is no image's id such as ami-0123456789abcdef0", n.AMI)
	}
	return nil
}

func renderKarpenter(n Node, carried Family) ([]byte, error) {
	err := n.needsAMI()
	if n.Role == "" {
		err = errors.Join(err, errors.New("role: the node role's name is missing"))
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(n.Taints, unregistered) {
		n.Taints = append(slices.Clone(n.Taints), unregistered)
		if err := n.Validate(); err != nil {
			return nil, err
		}
	}
	userData, err := carried.render(n, Family{})
	if err != nil {
		return nil, err
	}
	kubelet := n.kubeletSettings()
	maps.DeleteFunc(kubelet, func(name string, _ any) bool { return !slices.Contains(vocabulary().Karpenter, name) })
	discovery := []karpenter.Term{{Tags: map[string]string{"karpenter.sh/discovery": n.Cluster.Name}}}
	spec := karpenter.Spec{
		AMIFamily: "Custom", Kubelet: kubelet, AMIs: []karpenter.Term{{ID: n.AMI}}, Role: n.Role,
		Subnets: discovery, Groups: discovery, UserData: string(userData),
	}
	if strings.EqualFold(n.LocalStorage.Strategy, nodeconfig.RAID0) {
		spec.InstanceStorePolicy = nodeconfig.RAID0
	}
	text, err := strictjson.WriteYAML(karpenter.New(map[string]any{"name": "eksnode"}, spec))
	return []byte(text), err
}

// literal is a text that YAML shows line by line.
func literal(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.LiteralStyle, Value: text}
}

// eksctlOverride is the bootstrap command that eksctl puts into a MIME part: a
// NodeConfig or a script. Before are the commands that eksctl runs before.
func (n Node) eksctlOverride(carried Family) (override string, before []string, err error) {
	if err := n.without("eksctl has none for "+carried.ID, "nodeConfigs", "parts"); err != nil {
		return "", nil, err
	}
	if !carried.cloudInit {
		if err := n.without("eksctl has none for "+carried.ID, "post", "bootstrap", "settings"); err != nil {
			return "", nil, err
		}
		override, err = strictjson.WriteYAML(n.nodeConfig())
		return override, n.Pre, err
	}
	if err := n.withoutBootstrapSh(); err != nil {
		return "", nil, err
	}
	first, before := inlined(n.Pre)
	last, others := inlined(n.Post)
	if len(others) > 0 {
		return "", nil, errors.New("post: eksctl runs no script with #! after the machine joined; leave #! out")
	}
	override, err = n.bootstrapText(first, last)
	return override, before, err
}

func renderEksctl(n Node, carried Family) ([]byte, error) {
	err := n.needsAMI()
	if n.Region == "" {
		err = errors.Join(err, errors.New("region: the cluster's region is missing"))
	}
	if carried.eksctl == "" {
		err = errors.Join(err, fmt.Errorf("eksctl takes no bootstrap command for %s", carried.ID))
	}
	if err != nil {
		return nil, err
	}
	override, before, err := n.eksctlOverride(carried)
	if err != nil {
		return nil, err
	}
	type group struct {
		Name     string     `yaml:"name"`
		AMI      string     `yaml:"ami"`
		Family   string     `yaml:"amiFamily"`
		Type     string     `yaml:"instanceType,omitempty"`
		Before   []string   `yaml:"preBootstrapCommands,omitempty"`
		Override *yaml.Node `yaml:"overrideBootstrapCommand"`
	}
	text, err := strictjson.WriteYAML(struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   map[string]string `yaml:"metadata"`
		Groups     []group           `yaml:"nodeGroups"`
	}{"eksctl.io/v1alpha5", "ClusterConfig", map[string]string{"name": n.Cluster.Name, "region": n.Region}, []group{{
		Name: "eksnode", AMI: n.AMI, Family: carried.eksctl, Type: n.InstanceType,
		Before: before, Override: literal(strings.TrimRight(override, "\n") + "\n"),
	}}})
	return []byte(text), err
}

// isManifest recognizes a text with a document of a kind.
func isManifest(kind string) func(text string) bool {
	line := show.Regexp(`(?m)^kind: *["']?` + kind + `["']? *\r?$`)
	return func(text string) bool { return line().MatchString(text) && !nodeconfig.IsMIME(text) }
}

func (c *checker) documents(text, kind string) []*yaml.Node {
	var found []*yaml.Node
	if !c.isReadable(text) {
		return nil
	}
	d := yaml.NewDecoder(strings.NewReader(text))
	for {
		var document yaml.Node
		if err := d.Decode(&document); err != nil {
			if err.Error() != "EOF" {
				c.lines(errors.New("reading the YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")))
			}
			return found
		}
		if len(document.Content) > 0 && strictjson.Text(document.Content[0], "kind") == kind {
			found = append(found, document.Content[0])
		}
	}
}

// carried checks the user data that a manifest carries and gives the taints
// that its node registers with. The tool puts the cluster in, and with joins its
// own user data has the machine join.
func (c *checker) carried(field string, n *yaml.Node, cluster, joins bool) []string {
	f, err := detect(n.Value)
	switch {
	case err == nil && !f.Carries:
	case joins:
		return nil // cloud-init's, or another's
	case strings.Contains(n.Value, bootstrapScript):
		c.fail(n.Line+1, field, "%s", shebangAdvice)
		return nil
	default:
		c.fail(n.Line, field, "the family of the user data is not recognized")
		return nil
	}
	return c.carriedAs(f, field, n, n.Value, cluster, joins)
}

// carriedAs is carried for a text of a known family, which begins in the line
// where the scalar begins.
func (c *checker) carriedAs(f Family, field string, n *yaml.Node, text string, cluster, joins bool) []string {
	if len(n.Value) > maxUserData {
		c.fail(n.Line, field, "it has %d bytes, and EC2 takes at most %d", len(n.Value), maxUserData)
	}
	inner := &checker{&found{
		report: &Report{}, content: []byte(text), clusterElsewhere: cluster, joinsElsewhere: joins,
	}, c.scalar(n)}
	f.check(inner, text)
	c.take(inner)
	c.maxPods = append(c.maxPods, inner.maxPods...)
	return inner.taints
}

// take adds the report of a checker that knows nothing of the rest of the file.
func (c *checker) take(inner *checker) {
	for _, p := range inner.report.Problems {
		c.add(p)
	}
	c.report.Cluster, c.report.NamedByID = inner.report.Cluster, inner.report.NamedByID
}

func checkKarpenter(c *checker, text string) {
	for _, class := range c.documents(text, "EC2NodeClass") {
		inner := &checker{&found{report: &Report{Cluster: c.report.Cluster, NamedByID: c.report.NamedByID}}, c.at}
		inner.karpenterClass(class)
		c.take(inner)
	}
}

// given is a field of a Kubernetes object; nil also for null, which the API server drops.
func given(object *yaml.Node, field string) *yaml.Node {
	if n := strictjson.Child(object, field); n != nil && n.ShortTag() != "!!null" {
		return n
	}
	return nil
}

func (c *checker) karpenterClass(class *yaml.Node) {
	c.duplicates(class)
	spec := given(class, "spec")
	if spec == nil {
		c.fail(class.Line, "spec", "is missing")
		return
	}
	for _, name := range []string{"subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"} {
		if n := given(spec, name); n == nil || len(n.Content) == 0 {
			c.fail(spec.Line, "spec."+name, "is missing; Karpenter refuses the class")
		}
	}
	if given(spec, "role") == nil && given(spec, "instanceProfile") == nil {
		c.fail(spec.Line, "spec.role", "is missing; Karpenter refuses a class without role and instanceProfile")
	}
	c.misspelt(spec, "spec.", sortedNames(strictjson.FieldsOf(reflect.TypeFor[karpenter.Spec]())))
	c.karpenterClassKubelet(given(spec, "kubelet"))
	c.karpenterUserData(spec)
}

// karpenterClassKubelet checks an EC2NodeClass' spec.kubelet.
func (c *checker) karpenterClassKubelet(n *yaml.Node) {
	if n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		c.fail(n.Line, "spec.kubelet", "must be an object, not %s", strictjson.Kind(n))
		return
	}
	known := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if name := n.Content[i]; !slices.Contains(vocabulary().Karpenter, name.Value) {
			c.fail(name.Line, "spec.kubelet."+name.Value, "unknown field; %s",
				show.Suggest(name.Value, vocabulary().Karpenter))
			continue
		}
		known.Content = append(known.Content, n.Content[i], n.Content[i+1])
	}
	settings := strictjson.Free(known, func(line int, path, text string) {
		if field := "spec.kubelet." + path; !c.refused(line, field) {
			c.fail(line, field, "%s", text)
		}
	})
	c.kubeletConfig("spec.kubelet", known, settings)
	c.classStart(known, settings)
	if pods := strictjson.Child(n, "maxPods"); pods != nil {
		c.maxPods = []string{pods.Value}
	}
}

// misspelt reports names that differ from known ones by case or a letter.
func (c *checker) misspelt(object *yaml.Node, path string, known []string) {
	for i := 0; i+1 < len(object.Content); i += 2 {
		name := object.Content[i].Value
		for _, meant := range known {
			if !slices.Contains(known, name) && show.Edits(name, meant) < 2 {
				c.fail(object.Content[i].Line, path+name, "unknown field; did you mean %s?", meant)
			}
		}
	}
}

func (c *checker) karpenterUserData(spec *yaml.Node) {
	family, userData := given(spec, "amiFamily"), given(spec, "userData")
	custom := family != nil && family.Value == "Custom"
	switch {
	case userData == nil && custom:
		c.fail(family.Line, "spec.userData", "is missing; with amiFamily Custom Karpenter writes none, "+
			"and the machine joins no cluster")
		return
	case userData == nil:
		return
	case !custom && strings.Contains(userData.Value, bootstrapScript):
		c.warn(userData.Line, "spec.userData", "Karpenter merges it with its own, which calls bootstrap.sh once more: "+
			"leave the call out, or set amiFamily to Custom")
	case !custom:
		c.warn(userData.Line, "spec.userData", "Karpenter merges it with its own unless amiFamily is Custom")
	}
	before := len(c.maxPods)
	taints := c.carried("spec.userData", userData, !custom, !custom)
	if n := len(c.maxPods); before > 0 && n > before && c.maxPods[n-1] != c.maxPods[0] {
		c.warn(userData.Line, "spec.userData", "the node takes %s pods, and spec.kubelet.maxPods is %s: "+
			"Karpenter places pods by the latter", c.maxPods[n-1], c.maxPods[0])
	}
	if custom && !slices.Contains(taints, unregistered) {
		c.warn(userData.Line, "spec.userData", "the node does not register with the taint %s: Karpenter 1.0 to 1.2 "+
			"never registers the node, and with newer versions pods may start before Karpenter has set the node's "+
			"labels and taints", unregistered)
	}
}

func checkEksctl(c *checker, text string) {
	for _, config := range c.documents(text, "ClusterConfig") {
		c.duplicates(config)
		name := strictjson.Child(config, "metadata", "name")
		if name == nil {
			c.fail(config.Line, "metadata.name", "is missing")
		}
		if strictjson.Child(config, "metadata", "region") == nil {
			c.fail(config.Line, "metadata.region", "is missing")
		}
		for _, kind := range []string{"nodeGroups", "managedNodeGroups"} {
			groups := strictjson.Child(config, kind)
			if groups == nil {
				continue
			}
			for i, group := range groups.Content {
				c.eksctlGroup(fmt.Sprintf("%s[%d]", kind, i), group, name)
			}
		}
	}
}

// eksctlNeeds are the families for which eksctl demands a bootstrap command
// where the image is named by its id
// (https://docs.aws.amazon.com/eks/latest/eksctl/custom-ami-support.html).
var eksctlNeeds = show.Regexp(`^(AmazonLinux2|Ubuntu(Pro)?\d+)$`)

// eksctlOverride checks a node group's overrideBootstrapCommand. For Windows,
// eksctl puts the command between the tags of PowerShell, after variables with
// the cluster's values (eksctl, pkg/nodebootstrap/windows.go); for Bottlerocket
// and managed node groups with Windows, eksctl refuses the field.
func (c *checker) eksctlOverride(at string, family, override *yaml.Node) {
	field, of := at+".overrideBootstrapCommand", ""
	if family != nil {
		of = family.Value
	}
	windows := strings.HasPrefix(of, "Windows")
	switch {
	case strings.HasPrefix(of, "Bottlerocket"), windows && strings.HasPrefix(at, "managed"):
		c.fail(override.Line, field, "eksctl refuses the field for %s", of)
	case windows && !isWindows(override.Value):
		c.carriedAs(Family{check: checkWindows}, field, override, windowsOpen+override.Value+windowsClose, true, false)
	default:
		c.carried(field, override, true, false)
	}
}

func (c *checker) eksctlGroup(at string, group, cluster *yaml.Node) {
	ami, family := strictjson.Child(group, "ami"), strictjson.Child(group, "amiFamily")
	override := strictjson.Child(group, "overrideBootstrapCommand")
	own := ami != nil && amiID().MatchString(ami.Value)
	if ami != nil && strings.HasPrefix(ami.Value, "ami-") && !own {
		c.fail(ami.Line, at+".ami", "%q is no image's id", ami.Value)
	}
	if own && family == nil {
		c.fail(ami.Line, at+".amiFamily", "is missing; eksctl cannot tell it from an image's id")
	}
	if override == nil {
		if own && family != nil && eksctlNeeds().MatchString(family.Value) {
			c.fail(ami.Line, at+".overrideBootstrapCommand", "is missing; eksctl demands it for your own image of %s",
				family.Value)
		}
		return
	}
	c.report.Cluster = Cluster{}
	c.eksctlOverride(at, family, override)
	if told := c.report.Cluster.Name; told != "" && cluster != nil && told != cluster.Value {
		c.fail(override.Line, at+".overrideBootstrapCommand", "it joins the cluster %s, and metadata.name is %s", told,
			cluster.Value)
	}
}
