package clustersetup

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// nodeClass is Karpenter's EC2NodeClass
// (https://github.com/aws/karpenter-provider-aws, pkg/apis/crds, v1).
type nodeClass struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   map[string]string `yaml:"metadata"`
	Spec       nodeClassSpec     `yaml:"spec"`
}

type nodeClassSpec struct {
	Family   string              `yaml:"amiFamily"`
	Images   []map[string]string `yaml:"amiSelectorTerms"`
	Role     string              `yaml:"role,omitempty"`
	Profile  string              `yaml:"instanceProfile,omitempty"`
	Subnets  []map[string]string `yaml:"subnetSelectorTerms"`
	Groups   []map[string]string `yaml:"securityGroupSelectorTerms"`
	Devices  []nodeClassDevice   `yaml:"blockDeviceMappings"`
	Metadata nodeClassMetadata   `yaml:"metadataOptions"`
}

type nodeClassDevice struct {
	Name string       `yaml:"deviceName"`
	Root bool         `yaml:"rootVolume,omitempty"`
	EBS  nodeClassEBS `yaml:"ebs"`
}

type nodeClassEBS struct {
	Size      string `yaml:"volumeSize,omitempty"`
	Type      string `yaml:"volumeType"`
	Encrypted bool   `yaml:"encrypted,omitempty"`
	Key       string `yaml:"kmsKeyID,omitempty"`
	Snapshot  string `yaml:"snapshotID,omitempty"`
	Rate      int    `yaml:"volumeInitializationRate,omitempty"`
	Delete    bool   `yaml:"deleteOnTermination"`
}

type nodeClassMetadata struct {
	Endpoint string `yaml:"httpEndpoint"`
	Hops     int    `yaml:"httpPutResponseHopLimit"`
	Tokens   string `yaml:"httpTokens"`
}

func writeNodeClass(n Node) (string, error) {
	if n.AMI == "" {
		return "", ErrNotNeeded
	}
	if n.KarpenterFamily == "" {
		return "", blocked("Karpenter writes no user data of the family %s: use `eksnode userdata render --family karpenter --carrying %s`", n.Family, n.Family)
	}
	disks, err := n.disks()
	if err != nil {
		return "", err
	}
	image := map[string]string{"id": n.AMI}
	if parameter, named := strings.CutPrefix(n.AMI, byParameter); named {
		image = map[string]string{"ssmParameter": parameter}
	}
	_, _, role := n.role()
	class := nodeClass{
		// Karpenter refuses the tag kubernetes.io/cluster here, because it sets that itself.
		APIVersion: "karpenter.k8s.aws/v1", Kind: "EC2NodeClass", Metadata: map[string]string{"name": "eksnode", "uid": createOnly},
		Spec: nodeClassSpec{
			Family: n.KarpenterFamily, Images: []map[string]string{image}, Role: role, Subnets: ids(n.NodeSubnets), Groups: ids(n.SecurityGroups),
			Metadata: nodeClassMetadata{"enabled", 1, "required"},
		},
	}
	if n.Profile != "" { // Karpenter makes an instance profile for a role, or uses an existing one
		class.Spec.Role, class.Spec.Profile = "", n.Profile
	}
	for _, d := range disks {
		device := nodeClassDevice{Name: d.device, Root: d.device == n.Found.Image.RootDevice}
		device.EBS = nodeClassEBS{Type: "gp3", Encrypted: d.encrypted, Key: d.key, Snapshot: d.snapshot, Rate: d.rate, Delete: true}
		if d.size > 0 {
			device.EBS.Size = fmt.Sprintf("%dGi", d.size)
		}
		class.Spec.Devices = append(class.Spec.Devices, device)
	}
	var b bytes.Buffer
	b.WriteString(n.aboutNodeClass())
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err = e.Encode(class)
	return b.String(), err
}

// aboutNodeClass are the comments before the EC2NodeClass.
func (n Node) aboutNodeClass() string {
	text := Comment("This creates the EC2NodeClass eksnode. If there is one, the API server refuses this, because of the uid, and nothing is replaced. A NodePool uses it by spec.template.spec.nodeClassRef.")
	text += Comment("The subnets are those of the cluster. Nodes may use other subnets of the VPC.")
	if n.Volumes.Rate != 0 {
		text += Comment("The volumes name the snapshots of " + n.Found.Image.ID + ", so the AMI is fixed: print this again for another AMI.")
		for _, v := range n.Found.Image.Volumes {
			if !v.Encrypted {
				text += Comment("The snapshot " + v.Snapshot + " is not encrypted. Unless EBS encryption by default is on, its volumes are not encrypted either.")
			}
		}
	}
	return text
}

// ids are selector terms by ID.
func ids(all []string) []map[string]string {
	var terms []map[string]string
	for _, id := range all {
		terms = append(terms, map[string]string{"id": id})
	}
	return terms
}

// byParameter is the prefix with which launch templates name an SSM parameter that
// contains an image ID.
const byParameter = "resolve:ssm:"
