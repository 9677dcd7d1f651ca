// Package karpenter describes Karpenter's EC2NodeClass. Who writes, reads or checks one
// uses its types, whose tags are the rules of the API server.
package karpenter

// NodeClass is Karpenter's EC2NodeClass
// (https://github.com/aws/karpenter-provider-aws, pkg/apis/crds, v1 of 1.14 and v1beta1
// of 1.0).
type NodeClass struct {
	APIVersion string         `yaml:"apiVersion"`
	Kind       string         `yaml:"kind"`
	Metadata   map[string]any `yaml:"metadata"`
	Spec       Spec           `yaml:"spec"`
	Status     map[string]any `yaml:"status,omitempty"`
}

// New returns an EC2NodeClass of v1.
func New(metadata map[string]any, spec Spec) NodeClass {
	return NodeClass{APIVersion: "karpenter.k8s.aws/v1", Kind: "EC2NodeClass", Metadata: metadata, Spec: spec}
}

// Spec is the spec of an EC2NodeClass. The tags are what the API server accepts.
type Spec struct {
	AMIFamily string `yaml:"amiFamily,omitempty" enum:"AL2,AL2023,Bottlerocket,Custom,Ubuntu,Windows2019,Windows2022,Windows2025"`

	Kubelet             map[string]any    `yaml:"kubelet,omitempty" only:"v1"`
	InstanceStorePolicy string            `yaml:"instanceStorePolicy,omitempty" enum:"RAID0"`
	AMIs                []Term            `yaml:"amiSelectorTerms,omitempty"`
	Role                string            `yaml:"role,omitempty" pattern:"^[\\w+=,.@/:-]+$"`
	InstanceProfile     string            `yaml:"instanceProfile,omitempty" pattern:"^[\\w+=,.@-]+$"`
	Subnets             []Term            `yaml:"subnetSelectorTerms"`
	Groups              []Term            `yaml:"securityGroupSelectorTerms"`
	PublicAddress       *bool             `yaml:"associatePublicIPAddress,omitempty"`
	Tags                map[string]string `yaml:"tags,omitempty"`
	Devices             []Device          `yaml:"blockDeviceMappings,omitempty"`
	Metadata            Metadata          `yaml:"metadataOptions,omitempty"`
	Reservations        []Reserved        `yaml:"capacityReservationSelectorTerms,omitempty" only:"v1"`
	PlacementGroup      Placement         `yaml:"placementGroupSelector,omitempty" only:"v1"`
	IPPrefixCount       int               `yaml:"ipPrefixCount,omitempty" only:"v1" least:"0" most:"1048576"`
	Interfaces          []Card            `yaml:"networkInterfaces,omitempty" only:"v1"`
	DetailedMonitoring  *bool             `yaml:"detailedMonitoring,omitempty"`
	Tracking            Tracking          `yaml:"connectionTracking,omitempty" only:"v1"`
	Context             string            `yaml:"context,omitempty"`
	CPU                 CPU               `yaml:"cpuOptions,omitempty" only:"v1"`
	UserData            string            `yaml:"userData,omitempty"`
}

// Term is a selector term. Terms are alternatives; the parts of a term must all
// match. Subnets and security groups have not all of the fields.
type Term struct {
	ID    string `yaml:"id,omitempty" pattern:"^(ami|sg|subnet)-[0-9a-z]+$"`
	Name  string `yaml:"name,omitempty" pattern:"."`
	Owner string `yaml:"owner,omitempty" pattern:"."`

	Alias string `yaml:"alias,omitempty" only:"v1" pattern:"^(al2|al2023|bottlerocket|windows2019|windows2022|windows2025)@.+$"`

	SSMParameter string            `yaml:"ssmParameter,omitempty" only:"v1" pattern:"."`
	Tags         map[string]string `yaml:"tags,omitempty"`
}

// Reserved selects capacity reservations.
type Reserved struct {
	ID       string            `yaml:"id,omitempty" pattern:"^cr-[0-9a-z]+$"`
	Owner    string            `yaml:"ownerID,omitempty" pattern:"^[0-9]{12}$"`
	Criteria string            `yaml:"instanceMatchCriteria,omitempty" enum:"open,targeted"`
	Tags     map[string]string `yaml:"tags,omitempty"`
}

// Placement selects a placement group.
type Placement struct {
	ID   string `yaml:"id,omitempty" pattern:"^pg-[0-9a-z]+$"`
	Name string `yaml:"name,omitempty" pattern:"."`
}

// Device is a block device.
type Device struct {
	Name string `yaml:"deviceName,omitempty" pattern:"."`
	Root bool   `yaml:"rootVolume,omitempty"`
	EBS  *EBS   `yaml:"ebs,omitempty"`
}

// EBS is an EBS volume.
type EBS struct {
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

// Metadata are the options of the metadata service.
type Metadata struct {
	Endpoint string `yaml:"httpEndpoint,omitempty" enum:"enabled,disabled"`
	IPv6     string `yaml:"httpProtocolIPv6,omitempty" enum:"enabled,disabled"`
	HopLimit int    `yaml:"httpPutResponseHopLimit,omitempty" least:"1" most:"64"`
	Tokens   string `yaml:"httpTokens,omitempty" enum:"required,optional"`
}

// Card is a network interface.
type Card struct {
	Card   int    `yaml:"networkCardIndex"`
	Device int    `yaml:"deviceIndex"`
	Type   string `yaml:"interfaceType,omitempty" enum:"interface,efa-only"`
}

// Tracking are the timeouts of connection tracking, in seconds.
type Tracking struct {
	TCP       int `yaml:"tcpEstablishedTimeout,omitempty" least:"60" most:"432000"`
	UDPStream int `yaml:"udpStreamTimeout,omitempty" least:"60" most:"180"`
	UDP       int `yaml:"udpTimeout,omitempty" least:"30" most:"60"`
}

// CPU are the options of the processor.
type CPU struct {
	Nested string `yaml:"nestedVirtualization,omitempty" enum:"enabled,disabled"`
}
