// Package userdata writes and checks the user data with which an instance joins
// an EKS cluster, in the form of every family of images. The package calls no
// API: the caller passes the cluster's data.
package userdata

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"mime"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
)

// Node describes a machine for user data of any family.
type Node struct {
	Cluster Cluster `json:"cluster"`
	// Labels are those that the node registers with.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints have kubectl's form: key=value:Effect or key:Effect.
	Taints []string `json:"taints,omitempty"`
	// MaxPods is the maximum number of pods on the node; 0 means the machine
	// computes the maximum.
	MaxPods int `json:"maxPods,omitempty"`
	// MaxPodsExpression computes the maximum of pods on the machine, in CEL. Only
	// NodeConfig has it.
	MaxPodsExpression string `json:"maxPodsExpression,omitempty"`
	// KubeletArgs are further flags of the kubelet, each as --name=value.
	KubeletArgs []string `json:"kubeletArgs,omitempty"`
	// Kubelet are fields of KubeletConfiguration. Families without it take those
	// that the kubelet has a flag for, or Bottlerocket a setting.
	Kubelet map[string]any `json:"kubelet,omitempty"`

	// Pre and Post are shell scripts that run before and after the machine
	// joins, each with or without #!.
	Pre  []string `json:"pre,omitempty"`
	Post []string `json:"post,omitempty"`
	// Parts are further MIME parts, for cloud-init.
	Parts []Part `json:"parts,omitempty"`
	// NodeConfigs are further NodeConfigs, merged before the one that is written,
	// which wins.
	NodeConfigs []map[string]any `json:"nodeConfigs,omitempty"`

	// LocalStorage is the use of the instance store.
	LocalStorage LocalStorage `json:"localStorage,omitzero"`
	// FeatureGates are NodeConfig's.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Containerd is containerd's configuration.
	Containerd Containerd `json:"containerd,omitzero"`
	// Environment are variables by systemd service; "default" is for all services.
	Environment map[string]map[string]string `json:"environment,omitempty"`
	// Proxy is the proxy for all services.
	Proxy Proxy `json:"proxy,omitzero"`
	// Network is the resolution of names.
	Network Network `json:"network,omitzero"`
	// Bootstrap are further flags of bootstrap.sh, by their names without --.
	Bootstrap map[string]string `json:"bootstrap,omitempty"`
	// Settings are further settings of Bottlerocket, without the word settings.
	Settings map[string]any `json:"settings,omitempty"`

	// AMI and Role are the AMI ID and the name of the node role, for Karpenter and
	// eksctl.
	AMI  string `json:"ami,omitempty"`
	Role string `json:"role,omitempty"`
	// InstanceType is the type that eksctl starts; empty means eksctl's default.
	InstanceType string `json:"instanceType,omitempty"`
	// Region is the cluster's region, for eksctl.
	Region string `json:"region,omitempty"`
}

// Cluster is the part of DescribeCluster that a node needs.
type Cluster struct {
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
	// CA is the certificate authority in base64, as DescribeCluster returns it.
	CA string `json:"certificateAuthority"`
	// CIDR is the network of the cluster's services.
	CIDR string `json:"cidr"`
	// DNSAddresses are the addresses of the cluster's DNS; empty means the tenth
	// address of CIDR.
	DNSAddresses []string `json:"dns,omitempty"`
	// Outpost is the id of a local cluster on an Outpost; empty for all others.
	Outpost string `json:"outpost,omitempty"`
}

// ParseNode reads a description in YAML or JSON. The error lists all mistakes, each with
// its line and path.
func ParseNode(text []byte) (Node, error) {
	var n Node
	if _, err := strictjson.ReadYAML("the description", text, &n); err != nil {
		return Node{}, err
	}
	return n, nil
}

var kubeletArg = show.Regexp(`^--[a-z][a-z0-9-]*(=[^\r\n\x00]*)?$`)

// Validate returns everything that is wrong with the description, joined.
func (n Node) Validate() error {
	var errs []error
	add := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	n.Cluster.validate(add)
	for _, name := range sortedNames(n.Labels) {
		for _, said := range labelProblems(name, n.Labels[name]) {
			add("labels", "%s", said)
		}
	}
	for _, t := range n.Taints {
		if _, err := kubelet.ParseTaint(t); err != nil {
			add("taints", "%v", err)
		}
	}
	for _, arg := range n.KubeletArgs {
		if !kubeletArg().MatchString(arg) {
			add("kubeletArgs", "%q must be --name or --name=value", arg)
		}
	}
	for a := range kubelet.Arguments(n.kubeletWords()) {
		for _, said := range flagProblems(a) {
			add("kubeletArgs", "%s: %s", a.Name, said)
		}
	}
	report := func(warning bool, field string, argument int, said string) {
		at := "kubelet." + field
		if argument >= 0 {
			at, said = "kubeletArgs", field+": "+said
		}
		if !warning {
			add(at, "%s", said)
		}
	}
	kubeletStart(n.Kubelet, n.kubeletWords(), scriptBase([]string{"--reserved-cpus"}), report)
	n.contradictions(add)
	n.validateMore(add)
	if n.MaxPods < 0 || n.MaxPods > 1000 {
		add("maxPods", "%d must be from 0 to 1000", n.MaxPods)
	}
	return errors.Join(errs...)
}

// validateMore checks what only some families take.
func (n Node) validateMore(add func(field, format string, args ...any)) {
	if len(n.Kubelet) > 0 {
		var document yaml.Node
		var config map[string]any // with the types of a text
		if err := errors.Join(document.Encode(n.Kubelet), document.Decode(&config)); err != nil {
			add("kubelet", "%v", err)
			return
		}
		c := &checker{found: &found{report: &Report{}}}
		c.kubeletConfig("kubelet", &document, config)
		for _, p := range c.report.Problems {
			add(p.Field, "%s", p.Text)
		}
	}
	for i, p := range n.Parts {
		if media, _, err := mime.ParseMediaType(p.ContentType); err != nil || !slices.Contains(knownMedia(), media) {
			add(fmt.Sprintf("parts[%d].contentType", i), "%q is no type that cloud-init or a first boot reads",
				p.ContentType)
		}
	}
	nodeconfig.CheckEnvironment(n.Environment, func(at, format string, args ...any) {
		add("environment."+at, format, args...)
	})
	proxy := n.Proxy.variables()
	for _, name := range sortedNames(proxy) {
		value := proxy[name]
		if other := n.Environment[nodeconfig.DefaultEnvironment][name]; other != "" && other != value {
			add("proxy", "%s %s contradicts environment.default.%s %s", name, value, name, other)
		}
		if err := nodeconfig.CheckLine(value); err != nil {
			add("proxy", "the value %v", err)
		}
	}
	for _, address := range n.Cluster.DNSAddresses {
		if _, err := netip.ParseAddr(address); err != nil {
			add("cluster.dns", "%q is no address", address)
		}
	}
}

func (c Cluster) validate(add func(field, format string, args ...any)) {
	if err := nodeconfig.CheckClusterName(c.Name); err != nil {
		add("cluster.name", "%v", err)
	}
	if err := nodeconfig.CheckEndpoint(c.Endpoint); err != nil {
		add("cluster.endpoint", "%v", err)
	}
	if ca, err := base64.StdEncoding.DecodeString(c.CA); err != nil || len(ca) == 0 {
		add("cluster.certificateAuthority", "it must be base64, as DescribeCluster gives it")
	} else if said, fails := certificates(ca); fails {
		add("cluster.certificateAuthority", "%s", said)
	}
	if _, err := netip.ParsePrefix(c.CIDR); err != nil {
		add("cluster.cidr", "%q is no network such as 10.100.0.0/16 or fd00:1234::/108", c.CIDR)
	}
	if c.Outpost != "" {
		if err := nodeconfig.CheckOutpostID(c.Outpost); err != nil {
			add("cluster.outpost", "%v", err)
		}
	}
}

// certificates says what is wrong with a certificate authority: fails is true if
// no client can use it.
func certificates(ca []byte) (said string, fails bool) {
	block, _ := pem.Decode(ca)
	if block == nil || block.Type != "CERTIFICATE" {
		if bytes.Contains(ca, []byte("-----BEGIN CERTIFICATE-----")) {
			return "the PEM certificate is damaged", false
		}
		return "it holds no PEM certificate; use certificateAuthority.data of `aws eks describe-cluster` as it is", true
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return "the certificate cannot be read: " + err.Error(), false
	}
	return "", false
}

func (c *checker) authority(line int, field string, ca []byte) {
	switch said, fails := certificates(ca); {
	case said == "":
	case fails:
		c.fail(line, field, "%s", said)
	default:
		c.warn(line, field, "%s", said)
	}
}

// IPv6 reports whether the services' network is an IPv6 network.
func (c Cluster) IPv6() bool {
	prefix, err := netip.ParsePrefix(c.CIDR)
	return err == nil && prefix.Addr().Is6()
}

func (c Cluster) dns() []string {
	if len(c.DNSAddresses) > 0 {
		return c.DNSAddresses
	}
	return []string{c.DNS()}
}

// DNS is the tenth address of the services' network, where EKS puts the
// cluster's DNS; empty for a CIDR that is none.
func (c Cluster) DNS() string {
	prefix, err := netip.ParsePrefix(c.CIDR)
	if err != nil {
		return ""
	}
	return nodeconfig.ClusterDNS(prefix.Masked().Addr())
}

// kubeletFlags are the kubelet's flags for labels, taints and further
// arguments, in an order that does not change.
func (n Node) kubeletFlags() []string {
	var flags []string
	if len(n.Labels) > 0 {
		pairs := show.Each(sortedNames(n.Labels), func(name string) string { return name + "=" + n.Labels[name] })
		flags = append(flags, "--node-labels="+strings.Join(pairs, ","))
	}
	if len(n.Taints) > 0 {
		flags = append(flags, "--register-with-taints="+strings.Join(n.Taints, ","))
	}
	return append(flags, n.KubeletArgs...)
}
