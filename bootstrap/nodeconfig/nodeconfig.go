// Package nodeconfig is the second of the two contracts by which clusters tell
// a machine how to join: NodeConfig of node.eks.aws/v1alpha1, as Amazon Linux
// 2023 reads it from user data. It finds NodeConfigs in what it is given (plain
// YAML or JSON, MIME parts, base64, gzip, files, folders), decodes them
// strictly, merges them in order and says everything that is wrong at once.
//
// The package only reads. What the settings mean for a machine is decided in
// package node.
package nodeconfig

import (
	"encoding/json"
	"fmt"
)

// The identity of the documents this package reads.
const (
	// Group is the API group; MIME parts of type application/Group carry
	// NodeConfigs.
	Group = "node.eks.aws"
	// APIVersion is the only version there is (July 2026).
	APIVersion = Group + "/v1alpha1"
	// Kind is the documents' kind.
	Kind = "NodeConfig"
	// MediaType is the content type of a MIME part that holds a NodeConfig.
	MediaType = "application/" + Group
)

// NodeConfig is one document, or several merged. The field names and their
// meaning are those of amazon-eks-ami's nodeadm.
type NodeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Metadata is accepted and has no meaning; Karpenter writes it.
	Metadata Document `json:"metadata,omitempty"`
	Spec     Spec     `json:"spec,omitzero"`

	// places are where the values are written, by path.
	places map[string]place
}

// SpecJSON is the spec in JSON with the objects that Amazon's nodeadm writes
// when they are empty too.
func (c *NodeConfig) SpecJSON() (json.RawMessage, error) {
	text, err := json.Marshal(c.Spec)
	if err != nil {
		return nil, fmt.Errorf("encoding the NodeConfig: %w", err)
	}
	var spec map[string]json.RawMessage
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, fmt.Errorf("encoding the NodeConfig: %w", err)
	}
	instance := map[string]json.RawMessage{}
	if given := spec["instance"]; given != nil {
		if err := json.Unmarshal(given, &instance); err != nil {
			return nil, fmt.Errorf("encoding the NodeConfig: %w", err)
		}
	}
	fill(instance, "localStorage", "network")
	fill(spec, "cluster", "containerd", "kubelet")
	if spec["instance"], err = json.Marshal(instance); err == nil {
		text, err = json.Marshal(spec)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding the NodeConfig: %w", err)
	}
	return text, nil
}

// fill sets missing members to empty objects.
func fill(object map[string]json.RawMessage, names ...string) {
	for _, name := range names {
		if object[name] == nil {
			object[name] = json.RawMessage("{}")
		}
	}
}

// Spec is everything a cluster may ask of a node.
type Spec struct {
	Cluster      Cluster         `json:"cluster,omitzero"`
	Containerd   Containerd      `json:"containerd,omitzero"`
	Instance     Instance        `json:"instance,omitzero"`
	Kubelet      Kubelet         `json:"kubelet,omitzero"`
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// Cluster names the cluster. Name, APIServerEndpoint, CertificateAuthority and
// CIDR are required: no API is asked for them.
type Cluster struct {
	Name              string `json:"name,omitempty"`
	APIServerEndpoint string `json:"apiServerEndpoint,omitempty"`
	// CertificateAuthority is base64 in the document, PEM here.
	CertificateAuthority Base64 `json:"certificateAuthority,omitempty"`
	// CIDR is the services' network; its family is the node's, and its tenth
	// address the cluster's DNS.
	CIDR string `json:"cidr,omitempty"`
	// EnableOutpost joins a local cluster on an Outpost, which ID then names.
	EnableOutpost *bool  `json:"enableOutpost,omitempty"`
	ID            string `json:"id,omitempty"`
}

// Outpost says whether the cluster is a local one on an Outpost.
func (c Cluster) Outpost() bool { return c.EnableOutpost != nil && *c.EnableOutpost }

// Containerd are containerd's settings.
type Containerd struct {
	// Config is TOML that is merged over the generated configuration.
	Config TOML `json:"config,omitempty"`
	// BaseRuntimeSpec is merged over the generated OCI specification.
	BaseRuntimeSpec Document `json:"baseRuntimeSpec,omitempty"`
}

// Kubelet are the kubelet's settings.
type Kubelet struct {
	// Config is a KubeletConfiguration that overrides the generated one.
	Config Document `json:"config,omitempty"`
	// Flags come after the generated ones, in order, so that they win.
	Flags Flags `json:"flags,omitempty"`
	// MaxPodsExpression is an expression of the Common Expression Language
	// (CEL) over DefaultENIs, IPsPerENI, MaxPods, VCPUs and PhysicalMemoryMiB.
	MaxPodsExpression string `json:"maxPodsExpression,omitempty"`
}

// Instance are the machine's settings.
type Instance struct {
	LocalStorage LocalStorage `json:"localStorage,omitzero"`
	// Environment are environment variables by service; "default" is for all
	// services of the machine.
	Environment map[string]map[string]string `json:"environment,omitempty"`
	Network     Network                      `json:"network,omitzero"`
}

// DefaultEnvironment is the key of Instance.Environment for every service.
const DefaultEnvironment = "default"

// LocalStorage says what becomes of the instance store's disks.
type LocalStorage struct {
	Strategy string `json:"strategy,omitempty"`
	// MountPath is the folder below which they are mounted; empty means
	// /mnt/k8s-disks.
	MountPath      string   `json:"mountPath,omitempty"`
	DisabledMounts []string `json:"disabledMounts,omitempty"`
}

// Network says who resolves names for the machine.
type Network struct {
	Nameservers []string `json:"nameservers,omitempty"`
	Domains     []string `json:"domains,omitempty"`
}

// The known values of LocalStorage.Strategy.
const (
	RAID0  = "RAID0"
	RAID10 = "RAID10"
	Mount  = "Mount"
)

// The known values of LocalStorage.DisabledMounts.
const (
	DisableContainerd = "Containerd"
	DisablePodLogs    = "PodLogs"
	DisableSOCI       = "SOCI"
)

// The known feature gates.
const (
	// InstanceIDNodeName names the node after the instance's id.
	InstanceIDNodeName = "InstanceIdNodeName"
	// FastImagePull pulls images with the SOCI snapshotter in parallel.
	FastImagePull = "FastImagePull"
)

// Base64 is bytes that the document carries in base64. Missing or surplus
// padding is accepted: hand-copied user data often has it.
type Base64 []byte

// TOML is a TOML document; merging two merges their tables.
type TOML string

// Flags are command-line arguments; merging appends.
type Flags []string

// Document is a free-form object; merging merges its objects. Numbers are
// int64, uint64 or float64, as YAML reads them.
type Document map[string]any
