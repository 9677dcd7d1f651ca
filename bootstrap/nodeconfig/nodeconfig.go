// Package nodeconfig reads the NodeConfig contract: documents of node.eks.aws/v1alpha1
// in user data, as on Amazon Linux 2023. The package finds NodeConfigs in plain YAML or
// JSON, MIME parts, base64, gzip, files and folders. It decodes them strictly, merges
// them in order and reports all mistakes at once.
//
// The package only parses and checks the settings. Package node applies them.
package nodeconfig

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// The identity of a NodeConfig document.
const (
	// Group is the API group.
	Group = "node.eks.aws"
	// APIVersion is the only existing version (July 2026).
	APIVersion = Group + "/v1alpha1"
	// Kind is the documents' kind.
	Kind = "NodeConfig"
	// MediaType is the content type of a MIME part with a NodeConfig.
	MediaType = "application/" + Group
)

// NodeConfig is one document, or the result of merging several documents. The fields
// and their meaning are those of amazon-eks-ami's nodeadm.
type NodeConfig struct {
	APIVersion string `json:"apiVersion" yaml:"apiVersion"`
	Kind       string `json:"kind" yaml:"kind"`
	// Metadata has no effect. Karpenter writes this field.
	Metadata Document `json:"metadata,omitempty" yaml:"metadata,omitempty"`
	Spec     Spec     `json:"spec,omitzero" yaml:"spec"`

	// places maps the path of each value to its source and line.
	places map[string]place
}

// SpecJSON returns the spec in JSON, including the empty objects that Amazon's nodeadm
// writes.
func (c *NodeConfig) SpecJSON() (json.RawMessage, error) {
	text, err := json.Marshal(c.Spec)
	if err != nil {
		return nil, fmt.Errorf("encoding the NodeConfig: %w", err)
	}
	return text, nil
}

// Spec holds all settings of a node.
type Spec struct {
	Cluster      Cluster         `json:"cluster" yaml:"cluster,omitempty"`
	Containerd   Containerd      `json:"containerd" yaml:"containerd,omitempty"`
	Instance     Instance        `json:"instance" yaml:"instance,omitempty"`
	Kubelet      Kubelet         `json:"kubelet" yaml:"kubelet,omitempty"`
	FeatureGates map[string]bool `json:"featureGates,omitempty" yaml:"featureGates,omitempty"`
}

// Cluster identifies the cluster. Name, APIServerEndpoint, CertificateAuthority and
// CIDR are required, because first boot does not request them from EKS.
type Cluster struct {
	Name              string `json:"name,omitempty" yaml:"name,omitempty"`
	APIServerEndpoint string `json:"apiServerEndpoint,omitempty" yaml:"apiServerEndpoint,omitempty"`
	// CertificateAuthority is base64 in the document, PEM here.
	CertificateAuthority Base64 `json:"certificateAuthority,omitempty" yaml:"certificateAuthority,omitempty"`
	// CIDR is the network of the cluster's services. Its address family is the
	// node's, and its tenth address is the cluster's DNS server.
	CIDR string `json:"cidr,omitempty" yaml:"cidr,omitempty"`
	// EnableOutpost joins a local cluster on an Outpost. ID then identifies the
	// cluster.
	EnableOutpost *bool  `json:"enableOutpost,omitempty" yaml:"enableOutpost,omitempty"`
	ID            string `json:"id,omitempty" yaml:"id,omitempty"`
}

// Outpost reports whether the cluster is a local cluster on an Outpost.
func (c Cluster) Outpost() bool { return c.EnableOutpost != nil && *c.EnableOutpost }

// Containerd holds containerd's settings.
type Containerd struct {
	// Config is TOML that overrides the generated configuration.
	Config TOML `json:"config,omitempty" yaml:"config,omitempty"`
	// BaseRuntimeSpec overrides the generated OCI specification.
	BaseRuntimeSpec Document `json:"baseRuntimeSpec,omitempty" yaml:"baseRuntimeSpec,omitempty"`
}

// Kubelet holds the kubelet's settings.
type Kubelet struct {
	// Config is a KubeletConfiguration that overrides the generated one.
	Config Document `json:"config,omitempty" yaml:"config,omitempty"`
	// Flags follow the generated flags and override them.
	Flags Flags `json:"flags,omitempty" yaml:"flags,omitempty"`
	// MaxPodsExpression is an expression of the Common Expression Language
	// (CEL) over DefaultENIs, IPsPerENI, MaxPods, VCPUs and PhysicalMemoryMiB.
	MaxPodsExpression string `json:"maxPodsExpression,omitempty" yaml:"maxPodsExpression,omitempty"`
}

// Instance holds the machine's settings.
type Instance struct {
	LocalStorage LocalStorage `json:"localStorage" yaml:"localStorage,omitempty"`
	// Environment maps each service to its environment variables; "default" means all
	// services of the machine.
	Environment map[string]map[string]string `json:"environment,omitempty" yaml:"environment,omitempty"`
	Network     Network                      `json:"network" yaml:"network,omitempty"`
}

// DefaultEnvironment is the key of Instance.Environment for every service.
const DefaultEnvironment = "default"

// LocalStorage configures the instance store.
type LocalStorage struct {
	Strategy string `json:"strategy,omitempty" yaml:"strategy,omitempty"`
	// MountPath is the folder of the mounts; empty means /mnt/k8s-disks.
	MountPath      string   `json:"mountPath,omitempty" yaml:"mountPath,omitempty"`
	DisabledMounts []string `json:"disabledMounts,omitempty" yaml:"disabledMounts,omitempty"`
}

// Network configures the machine's DNS servers and search domains.
type Network struct {
	Nameservers []string `json:"nameservers,omitempty" yaml:"nameservers,omitempty"`
	Domains     []string `json:"domains,omitempty" yaml:"domains,omitempty"`
}

// The known values of LocalStorage.Strategy. NoDisks overrides an earlier NodeConfig.
const (
	RAID0   = "RAID0"
	RAID10  = "RAID10"
	Mount   = "Mount"
	NoDisks = "none"
)

var strategies = []string{Mount, RAID0, RAID10, NoDisks}

// The known values of LocalStorage.DisabledMounts.
const (
	DisableContainerd = "Containerd"
	DisablePodLogs    = "PodLogs"
	DisableSOCI       = "SOCI"
)

// The known feature gates.
const (
	// InstanceIDNodeName uses the instance ID as the node's name.
	InstanceIDNodeName = "InstanceIdNodeName"
	// FastImagePull pulls images with the SOCI snapshotter in parallel.
	FastImagePull = "FastImagePull"
)

// Base64 is a value that is base64 in the document. Missing or surplus padding is
// accepted, because it is common in hand-copied user data.
type Base64 []byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Base64) UnmarshalText(text []byte) (err error) {
	if *b, err = Unbase64(string(text)); err != nil {
		return fmt.Errorf("the value is not base64: %w", err)
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (b Base64) MarshalText() ([]byte, error) { return base64.StdEncoding.AppendEncode(nil, b), nil }

// Unbase64 decodes base64 with any line breaks and with or without padding.
func Unbase64(text string) ([]byte, error) {
	compact := strings.Join(strings.Fields(text), "")
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(compact, "="))
}

// TOML is a TOML document; merging two merges their tables.
type TOML string

// Flags are command-line arguments; merging appends.
type Flags []string

// Document is a free-form object; merging merges its objects. Numbers are
// int64, uint64 or float64, as YAML reads them.
type Document map[string]any

// CheckLine returns an error if a text cannot be one line of a file of another program.
func CheckLine(text string) error {
	switch {
	case strings.ContainsAny(text, "\r\n\x00"):
		return errors.New("must be on one line")
	case !utf8.ValidString(text):
		return errors.New("must be UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return errors.New("must not hold control characters")
	default:
		return nil
	}
}

// maxShown is the maximum length of quoted text in messages, in bytes.
const maxShown = 500

// Printable returns text as one printable line of limited length.
func Printable(text string) string { return show.Short(text, maxShown) }

// place is the source and the line of a value.
type place struct {
	source string // of Load; empty for none
	line   int
}

func (p place) String() string {
	if p.source == "" {
		return fmt.Sprintf("line %d: ", p.line)
	}
	return fmt.Sprintf("%s: line %d: ", p.source, p.line)
}

func (c *NodeConfig) placed(path string, line int) {
	if c.places == nil {
		c.places = map[string]place{}
	}
	c.places[path] = place{line: line}
}

// from sets the source of all values.
func (c *NodeConfig) from(source string) {
	for path, p := range c.places {
		p.source = source
		c.places[path] = p
	}
}

// mergePlaces merges the places of a later document into c. Flags are appended, so the
// later document's flags get higher indexes.
func (c *NodeConfig) mergePlaces(later *NodeConfig) {
	out := maps.Clone(c.places)
	if out == nil {
		out = map[string]place{}
	}
	const flags = "spec.kubelet.flags["
	for path, p := range later.places {
		var n int
		if _, err := fmt.Sscanf(path, flags+"%d]", &n); err == nil {
			path = fmt.Sprintf("%s%d]", flags, n+len(c.Spec.Kubelet.Flags))
		}
		out[path] = p
	}
	c.places = out
}

// Located returns an error of Validate with the source and line before every problem,
// if known. A missing value has the line of its object.
func (c *NodeConfig) Located(err error) error {
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) {
		return err
	}
	var located []error
	for _, e := range all.Unwrap() {
		path, _, _ := strings.Cut(e.Error(), ": ")
		p, known := c.places[path]
		for !known && path != "" {
			path = path[:max(strings.LastIndexAny(path, ".["), 0)]
			p, known = c.places[path]
		}
		if !known {
			p, known = c.places["kind"] // a document without spec
		}
		if known {
			e = fmt.Errorf("%s%w", p, e)
		}
		located = append(located, e)
	}
	return errors.Join(located...)
}
