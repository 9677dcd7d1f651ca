package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// NodeClass is Karpenter's EC2NodeClass.
type NodeClass struct {
	// File is the file's name, or - for standard input.
	File string
	Name string
	// Version is v1 or v1beta1.
	Version string
	classSpec

	line int
	// joining is the class without kubelet, and settings a class with the same
	// kubelet and no user data, for the package userdata.
	joining, settings []byte
}

// classSpec is the part of spec that preflight reads.
type classSpec struct {
	Role            string            `yaml:"role"`
	InstanceProfile string            `yaml:"instanceProfile"`
	AMIFamily       string            `yaml:"amiFamily"`
	UserData        string            `yaml:"userData"`
	PublicAddress   *bool             `yaml:"associatePublicIPAddress"`
	Tags            map[string]string `yaml:"tags"`
	Subnets         []term            `yaml:"subnetSelectorTerms"`
	Groups          []term            `yaml:"securityGroupSelectorTerms"`
	AMIs            []term            `yaml:"amiSelectorTerms"`
	Devices         []device          `yaml:"blockDeviceMappings"`
	Metadata        metadata          `yaml:"metadataOptions"`
}

// term is a selector term. Terms are alternatives; the parts of a term must all
// match.
type term struct {
	ID           string            `yaml:"id"`
	Name         string            `yaml:"name"`
	Owner        string            `yaml:"owner"`
	Alias        string            `yaml:"alias"`
	SSMParameter string            `yaml:"ssmParameter"`
	Tags         map[string]string `yaml:"tags"`
}

type device struct {
	Name string `yaml:"deviceName"`
	Root bool   `yaml:"rootVolume"`
	EBS  *struct {
		Encrypted  *bool  `yaml:"encrypted"`
		Key        string `yaml:"kmsKeyID"`
		Snapshot   string `yaml:"snapshotID"`
		Size       string `yaml:"volumeSize"`
		Type       string `yaml:"volumeType"`
		IOPS       int    `yaml:"iops"`
		Throughput int    `yaml:"throughput"`
		Rate       int    `yaml:"volumeInitializationRate"`
	} `yaml:"ebs"`
}

type metadata struct {
	Endpoint string `yaml:"httpEndpoint"`
	Tokens   string `yaml:"httpTokens"`
	HopLimit int    `yaml:"httpPutResponseHopLimit"`
}

func (c *NodeClass) file() string {
	if c.File == "-" {
		return "FILE"
	}
	return c.File
}

// rules checks the rules between fields that the API server checks.
func (r *classReader) rules(c *NodeClass, spec *yaml.Node) {
	if (c.Role == "") == (c.InstanceProfile == "") {
		r.fail(spec.Line, "spec", "must have either role or instanceProfile")
	}
	if strings.HasPrefix(c.Role, "arn:") {
		r.fail(member(spec, "role").Line, "spec.role", "%q is an ARN; Karpenter needs the role's name", c.Role)
	}
	r.terms(spec, "subnetSelectorTerms", c.Subnets, "tags", "id")
	r.terms(spec, "securityGroupSelectorTerms", c.Groups, "tags", "id", "name")
	if c.Version == "v1" || len(c.AMIs) > 0 || c.AMIFamily == "Custom" {
		r.terms(spec, "amiSelectorTerms", c.AMIs, "tags", "id", "name", "alias", "ssmParameter")
	}
	r.family(c, spec)
	r.tags(c, spec)
	roots := 0
	for i, d := range c.Devices {
		path := fmt.Sprintf("spec.blockDeviceMappings[%d]", i)
		line := member(spec, "blockDeviceMappings").Content[i].Line
		if d.Root {
			roots++
		}
		if e := d.EBS; e != nil && e.Snapshot == "" && e.Size == "" {
			r.fail(line, path+".ebs", "must have snapshotID or volumeSize")
		} else if e != nil && e.Snapshot == "" && e.Rate > 0 {
			r.fail(line, path+".ebs.volumeInitializationRate", "needs snapshotID")
		}
	}
	if roots > 1 {
		r.fail(member(spec, "blockDeviceMappings").Line, "spec.blockDeviceMappings", "only one of them may have rootVolume")
	}
}

func (r *classReader) terms(spec *yaml.Node, name string, terms []term, known ...string) {
	list := member(spec, name)
	if list == nil || len(terms) == 0 {
		r.fail(spec.Line, "spec."+name, "must have at least one term")
		return
	}
	if len(terms) > 30 {
		r.fail(list.Line, "spec."+name, "must have at most 30 terms")
	}
	for i, t := range terms {
		path, line := fmt.Sprintf("spec.%s[%d]", name, i), list.Content[i].Line
		switch {
		case t.ID == "" && t.Name == "" && t.Alias == "" && t.SSMParameter == "" && len(t.Tags) == 0:
			r.fail(line, path, "must have one of %s", strings.Join(known, ", "))
		case t.ID != "" && (t.Name != "" || t.Owner != "" || t.Alias != "" || len(t.Tags) > 0):
			r.fail(line, path, "id must be alone in its term")
		case t.Alias != "" && (t.Name != "" || t.Owner != "" || len(t.Tags) > 0):
			r.fail(line, path, "alias must be alone in its term")
		case t.Alias != "" && len(terms) > 1:
			r.fail(line, path, "a term with alias must be the only term")
		case name == "securityGroupSelectorTerms" && t.Name != "" && len(t.Tags) > 0:
			r.fail(line, path, "name must be alone in its term")
		case len(t.Tags) > 20:
			r.fail(line, path+".tags", "must have at most 20 tags")
		case strings.HasPrefix(t.Alias, "windows") && !strings.HasSuffix(t.Alias, "@latest"):
			r.fail(line, path+".alias", "%q must have the version latest, as all aliases for Windows", t.Alias)
		case len(t.Alias) > 30:
			r.fail(line, path+".alias", "%q is longer than 30 characters", t.Alias)
		}
	}
}

func (r *classReader) family(c *NodeClass, spec *yaml.Node) {
	ofAlias, _, _ := strings.Cut(c.alias(), "@")
	switch {
	case c.AMIFamily == "" && (ofAlias == "" || c.Version != "v1"):
		r.fail(spec.Line, "spec.amiFamily", "is missing; only a term with alias makes it optional")
	case c.AMIFamily == "Ubuntu" && c.Version == "v1", c.AMIFamily == "Windows2025" && c.Version != "v1":
		r.fail(member(spec, "amiFamily").Line, "spec.amiFamily", "%q is not known in karpenter.k8s.aws/%s", c.AMIFamily, c.Version)
	case ofAlias != "" && c.AMIFamily != "" && c.AMIFamily != "Custom" && !strings.EqualFold(c.AMIFamily, ofAlias):
		r.fail(member(spec, "amiFamily").Line, "spec.amiFamily", "%q does not fit the alias %s", c.AMIFamily, c.alias())
	}
}

func (r *classReader) tags(c *NodeClass, spec *yaml.Node) {
	for pair := range slices.Chunk(members(member2(spec, "tags")), 2) {
		if key := pair[0].Value; strings.HasPrefix(key, "kubernetes.io/cluster") || slices.Contains(reservedTags(), key) {
			r.fail(pair[0].Line, "spec.tags."+key, "this tag is Karpenter's own; leave it out")
		}
	}
}

// split writes the two texts for the package userdata.
func (c *NodeClass) split(spec *yaml.Node) error {
	var fields map[string]any
	if err := spec.Decode(&fields); err != nil {
		return err
	}
	write := func(fields map[string]any) ([]byte, error) {
		return yaml.Marshal(map[string]any{"apiVersion": karpenterGroup + "/v1", "kind": classKind, "metadata": map[string]any{"name": c.Name}, "spec": fields})
	}
	if kubelet := fields["kubelet"]; kubelet != nil {
		terms := []any{map[string]any{"id": "-"}}
		text, err := write(map[string]any{
			"role": "node", "amiFamily": "AL2023", "kubelet": kubelet, "subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms, "amiSelectorTerms": terms,
		})
		if err != nil {
			return err
		}
		c.settings = text
		delete(fields, "kubelet")
	}
	if fields["amiSelectorTerms"] == nil { // optional in v1beta1
		fields["amiSelectorTerms"] = []any{map[string]any{"id": "-"}}
	}
	text, err := write(fields)
	c.joining = text
	return err
}

func (c *NodeClass) kubeletFaults() []string {
	if c.settings == nil {
		return nil
	}
	r, err := userdata.Check(c.settings, "karpenter")
	if err != nil {
		return []string{err.Error()}
	}
	var list []string
	for _, p := range r.Problems {
		p.Line = 0 // the checked text is not the file
		list = append(list, p.String())
	}
	return list
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
	l := awsapi.Launch{
		From: "the EC2NodeClass " + c.Name, Profile: c.InstanceProfile, UserData: []byte(c.UserData), PublicAddress: c.PublicAddress,
		SecurityGroups: s.groups.value, Tokens: cmp.Or(c.Metadata.Tokens, "required"), HopLimit: cmp.Or(c.Metadata.HopLimit, 1),
		NoMetadata: c.Metadata.Endpoint == "disabled", Tags: map[string]string{"kubernetes.io/cluster/" + cluster: "owned"},
	}
	return l
}

// userData checks the class's user data. Karpenter writes its own, and merges the
// class's unless the family is Custom.
func (c *NodeClass) userData() fact[userdata.Report] {
	if c.UserData == "" && c.AMIFamily != "Custom" {
		return fact[userdata.Report]{}
	}
	r, err := userdata.Check(c.joining, "karpenter")
	if err != nil {
		return learn(r, err)
	}
	for i := range r.Problems { // the checked text is the class alone
		r.Problems[i].Line = 0
	}
	return learn(r, nil)
}

func (c *NodeClass) family() string {
	r, err := userdata.Check([]byte(c.UserData), "")
	if err != nil {
		return ""
	}
	return r.Family
}

// keys are the KMS keys of the block devices.
func (c *NodeClass) keys() []string {
	var keys []string
	for _, d := range c.Devices {
		if d.EBS != nil && d.EBS.Key != "" {
			keys = append(keys, d.EBS.Key)
		}
	}
	return keys
}

// field is what the API server accepts for a field of an EC2NodeClass.
type field struct {
	// kind is text, truth, number, object, list, map (of texts) or any.
	kind string
	// of are the fields of an object, or of a list's objects.
	of map[string]field
	// values are the only values. pattern is a regular expression that a text must
	// match. Numbers are between least and most, where most is set.
	values      []string
	pattern     string
	least, most int
	// filled refuses a map with empty values. Empty keys are refused in every map.
	filled bool
	// only is the version that has the field: v1 or v1beta1. Empty means both.
	only string
}

// classFields are the fields of spec, from Karpenter's
// karpenter.k8s.aws_ec2nodeclasses.yaml of v1.14 and v1.0.
func classFields() map[string]field {
	text, truth, number := field{kind: "text"}, field{kind: "truth"}, field{kind: "number"}
	tags := field{kind: "map", filled: true}
	onOff := field{kind: "text", values: []string{"enabled", "disabled"}}
	return map[string]field{
		"subnetSelectorTerms": {kind: "list", of: map[string]field{"tags": tags, "id": {kind: "text", pattern: `^subnet-[0-9a-z]+$`}}},
		"securityGroupSelectorTerms": {kind: "list", of: map[string]field{
			"tags": tags, "id": {kind: "text", pattern: `^sg-[0-9a-z]+$`}, "name": text,
		}},
		"capacityReservationSelectorTerms": {kind: "list", only: "v1", of: map[string]field{
			"tags": tags, "id": {kind: "text", pattern: `^cr-[0-9a-z]+$`}, "ownerID": {kind: "text", pattern: `^[0-9]{12}$`},
			"instanceMatchCriteria": {kind: "text", values: []string{"open", "targeted"}},
		}},
		"placementGroupSelector":   {kind: "object", only: "v1", of: map[string]field{"name": text, "id": {kind: "text", pattern: `^pg-[0-9a-z]+$`}}},
		"associatePublicIPAddress": truth,
		"ipPrefixCount":            {kind: "number", only: "v1", most: 1 << 20},
		"amiSelectorTerms": {kind: "list", of: map[string]field{
			"tags": tags, "id": {kind: "text", pattern: `^ami-[0-9a-z]+$`}, "name": text, "owner": text,
			"alias":        {kind: "text", only: "v1", pattern: `^(al2|al2023|bottlerocket|windows2019|windows2022|windows2025)@.+$`},
			"ssmParameter": {kind: "text", only: "v1"},
		}},
		"amiFamily":       {kind: "text", values: []string{"AL2", "AL2023", "Bottlerocket", "Custom", "Ubuntu", "Windows2019", "Windows2022", "Windows2025"}},
		"userData":        text,
		"role":            {kind: "text", pattern: `^[\w+=,.@/:-]+$`},
		"instanceProfile": {kind: "text", pattern: `^[\w+=,.@-]+$`},
		"tags":            {kind: "map"},
		"kubelet":         {kind: "any", only: "v1"}, // the package userdata checks its fields
		"blockDeviceMappings": {kind: "list", of: map[string]field{
			"deviceName": text, "rootVolume": truth,
			"ebs": {kind: "object", of: map[string]field{
				"deleteOnTermination": truth, "encrypted": truth, "iops": number, "kmsKeyID": text, "snapshotID": text, "throughput": number,
				"volumeInitializationRate": {kind: "number", only: "v1", least: 100, most: 300},
				"volumeSize":               {kind: "text", pattern: `^[1-9][0-9]{0,4}(Gi|G|Ti|T)$`},
				"volumeType":               {kind: "text", values: []string{"standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"}},
			}},
		}},
		"instanceStorePolicy": {kind: "text", values: []string{"RAID0"}},
		"networkInterfaces": {kind: "list", only: "v1", of: map[string]field{
			"networkCardIndex": number, "deviceIndex": number, "interfaceType": {kind: "text", values: []string{"interface", "efa-only"}},
		}},
		"detailedMonitoring": truth,
		"metadataOptions": {kind: "object", of: map[string]field{
			"httpEndpoint": onOff, "httpProtocolIPv6": onOff, "httpPutResponseHopLimit": {kind: "number", least: 1, most: 64},
			"httpTokens": {kind: "text", values: []string{"required", "optional"}},
		}},
		"connectionTracking": {kind: "object", only: "v1", of: map[string]field{
			"tcpEstablishedTimeout": {kind: "number", least: 60, most: 432000}, "udpStreamTimeout": {kind: "number", least: 60, most: 180},
			"udpTimeout": {kind: "number", least: 30, most: 60},
		}},
		"context":    text,
		"cpuOptions": {kind: "object", only: "v1", of: map[string]field{"nestedVirtualization": onOff}},
	}
}

// reservedTags are the tags that Karpenter sets itself. A class with one of them
// is refused.
func reservedTags() []string {
	return []string{"eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.sh/managed-by", "karpenter.k8s.aws/ec2nodeclass"}
}
