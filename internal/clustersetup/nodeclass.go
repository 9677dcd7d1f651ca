package clustersetup

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// NodeClass is Karpenter's EC2NodeClass
// (https://github.com/aws/karpenter-provider-aws, pkg/apis/crds, v1 of 1.14 and v1beta1
// of 1.0).
type NodeClass struct {
	APIVersion string         `yaml:"apiVersion"`
	Kind       string         `yaml:"kind"`
	Metadata   map[string]any `yaml:"metadata"`
	Spec       NodeClassSpec  `yaml:"spec"`
	Status     map[string]any `yaml:"status,omitempty"`
}

// NodeClassOf returns an EC2NodeClass of v1.
func NodeClassOf(metadata map[string]any, spec NodeClassSpec) NodeClass {
	return NodeClass{APIVersion: "karpenter.k8s.aws/v1", Kind: "EC2NodeClass", Metadata: metadata, Spec: spec}
}

// NodeClassSpec is the spec of an EC2NodeClass. The tags are what the API server accepts.
type NodeClassSpec struct {
	AMIFamily           string              `yaml:"amiFamily,omitempty" enum:"AL2,AL2023,Bottlerocket,Custom,Ubuntu,Windows2019,Windows2022,Windows2025"`
	Kubelet             map[string]any      `yaml:"kubelet,omitempty" only:"v1"`
	InstanceStorePolicy string              `yaml:"instanceStorePolicy,omitempty" enum:"RAID0"`
	AMIs                []NodeClassTerm     `yaml:"amiSelectorTerms,omitempty"`
	Role                string              `yaml:"role,omitempty" pattern:"^[\\w+=,.@/:-]+$"`
	InstanceProfile     string              `yaml:"instanceProfile,omitempty" pattern:"^[\\w+=,.@-]+$"`
	Subnets             []NodeClassTerm     `yaml:"subnetSelectorTerms"`
	Groups              []NodeClassTerm     `yaml:"securityGroupSelectorTerms"`
	PublicAddress       *bool               `yaml:"associatePublicIPAddress,omitempty"`
	Tags                map[string]string   `yaml:"tags,omitempty"`
	Devices             []NodeClassDevice   `yaml:"blockDeviceMappings,omitempty"`
	Metadata            NodeClassMetadata   `yaml:"metadataOptions,omitempty"`
	Reservations        []NodeClassReserved `yaml:"capacityReservationSelectorTerms,omitempty" only:"v1"`
	PlacementGroup      NodeClassPlacement  `yaml:"placementGroupSelector,omitempty" only:"v1"`
	IPPrefixCount       int                 `yaml:"ipPrefixCount,omitempty" only:"v1" least:"0" most:"1048576"`
	Interfaces          []NodeClassCard     `yaml:"networkInterfaces,omitempty" only:"v1"`
	DetailedMonitoring  *bool               `yaml:"detailedMonitoring,omitempty"`
	Tracking            NodeClassTracking   `yaml:"connectionTracking,omitempty" only:"v1"`
	Context             string              `yaml:"context,omitempty"`
	CPU                 NodeClassCPU        `yaml:"cpuOptions,omitempty" only:"v1"`
	UserData            string              `yaml:"userData,omitempty"`
}

// NodeClassTerm is a selector term. Terms are alternatives; the parts of a term must all
// match. Subnets and security groups have not all of the fields.
type NodeClassTerm struct {
	ID           string            `yaml:"id,omitempty" pattern:"^(ami|sg|subnet)-[0-9a-z]+$"`
	Name         string            `yaml:"name,omitempty" pattern:"."`
	Owner        string            `yaml:"owner,omitempty" pattern:"."`
	Alias        string            `yaml:"alias,omitempty" only:"v1" pattern:"^(al2|al2023|bottlerocket|windows2019|windows2022|windows2025)@.+$"`
	SSMParameter string            `yaml:"ssmParameter,omitempty" only:"v1" pattern:"."`
	Tags         map[string]string `yaml:"tags,omitempty"`
}

// NodeClassReserved selects capacity reservations.
type NodeClassReserved struct {
	ID       string            `yaml:"id,omitempty" pattern:"^cr-[0-9a-z]+$"`
	Owner    string            `yaml:"ownerID,omitempty" pattern:"^[0-9]{12}$"`
	Criteria string            `yaml:"instanceMatchCriteria,omitempty" enum:"open,targeted"`
	Tags     map[string]string `yaml:"tags,omitempty"`
}

// NodeClassPlacement selects a placement group.
type NodeClassPlacement struct {
	ID   string `yaml:"id,omitempty" pattern:"^pg-[0-9a-z]+$"`
	Name string `yaml:"name,omitempty" pattern:"."`
}

// NodeClassDevice is a block device.
type NodeClassDevice struct {
	Name string        `yaml:"deviceName,omitempty" pattern:"."`
	Root bool          `yaml:"rootVolume,omitempty"`
	EBS  *NodeClassEBS `yaml:"ebs,omitempty"`
}

// NodeClassEBS is an EBS volume.
type NodeClassEBS struct {
	Size       string `yaml:"volumeSize,omitempty" pattern:"^[1-9][0-9]{0,4}(Gi|G|Ti|T)$"`
	Type       string `yaml:"volumeType,omitempty" enum:"standard,io1,io2,gp2,sc1,st1,gp3"`
	Encrypted  *bool  `yaml:"encrypted,omitempty"`
	Key        string `yaml:"kmsKeyID,omitempty" pattern:"."`
	Snapshot   string `yaml:"snapshotID,omitempty" pattern:"."`
	IOPS       int    `yaml:"iops,omitempty"`
	Throughput int    `yaml:"throughput,omitempty"`
	Rate       int    `yaml:"volumeInitializationRate,omitempty" only:"v1" least:"100" most:"300"`
	Delete     *bool  `yaml:"deleteOnTermination,omitempty"`
}

// NodeClassMetadata are the options of the metadata service.
type NodeClassMetadata struct {
	Endpoint string `yaml:"httpEndpoint,omitempty" enum:"enabled,disabled"`
	IPv6     string `yaml:"httpProtocolIPv6,omitempty" enum:"enabled,disabled"`
	HopLimit int    `yaml:"httpPutResponseHopLimit,omitempty" least:"1" most:"64"`
	Tokens   string `yaml:"httpTokens,omitempty" enum:"required,optional"`
}

// NodeClassCard is a network interface.
type NodeClassCard struct {
	Card   int    `yaml:"networkCardIndex"`
	Device int    `yaml:"deviceIndex"`
	Type   string `yaml:"interfaceType,omitempty" enum:"interface,efa-only"`
}

// NodeClassTracking are the timeouts of connection tracking, in seconds.
type NodeClassTracking struct {
	TCP       int `yaml:"tcpEstablishedTimeout,omitempty" least:"60" most:"432000"`
	UDPStream int `yaml:"udpStreamTimeout,omitempty" least:"60" most:"180"`
	UDP       int `yaml:"udpTimeout,omitempty" least:"30" most:"60"`
}

// NodeClassCPU are the options of the processor.
type NodeClassCPU struct {
	Nested string `yaml:"nestedVirtualization,omitempty" enum:"enabled,disabled"`
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
	image := NodeClassTerm{ID: n.AMI}
	if parameter, named := strings.CutPrefix(n.AMI, byParameter); named {
		image = NodeClassTerm{SSMParameter: parameter}
	}
	_, _, role := n.role()
	// Karpenter refuses the tag kubernetes.io/cluster here, because it sets that itself.
	spec := NodeClassSpec{
		AMIFamily: n.KarpenterFamily, AMIs: []NodeClassTerm{image}, Role: role, Subnets: ids(n.NodeSubnets), Groups: ids(n.SecurityGroups),
		Metadata: NodeClassMetadata{Endpoint: "enabled", HopLimit: 1, Tokens: "required"},
	}
	if n.Profile != "" { // Karpenter makes an instance profile for a role, or uses an existing one
		spec.Role, spec.InstanceProfile = "", n.Profile
	}
	for _, d := range disks {
		ebs := NodeClassEBS{Type: "gp3", Key: d.key, Snapshot: d.snapshot, Rate: d.rate, Delete: new(true)}
		if d.encrypted {
			ebs.Encrypted = new(true)
		}
		if d.size > 0 {
			ebs.Size = fmt.Sprintf("%dGi", d.size)
		}
		spec.Devices = append(spec.Devices, NodeClassDevice{Name: d.device, Root: d.device == n.Found.Image.RootDevice, EBS: &ebs})
	}
	var b bytes.Buffer
	b.WriteString(n.aboutNodeClass())
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err = e.Encode(NodeClassOf(map[string]any{"name": "eksnode", "uid": createOnly}, spec))
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

func ids(all []string) []NodeClassTerm {
	return show.Each(all, func(id string) NodeClassTerm { return NodeClassTerm{ID: id} })
}

// byParameter is the prefix with which launch templates name an SSM parameter that
// contains an image ID.
const byParameter = "resolve:ssm:"
