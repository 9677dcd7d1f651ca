// Package node describes the node to configure. Both contracts, NodeConfig and
// bootstrap.sh, result in the same description, which is complete: rendering needs
// no further facts.
package node

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// Form is the contract of the user data.
type Form string

// The contracts.
const (
	// NodeConfig is read at every boot; no service starts before.
	NodeConfig Form = "NodeConfig"
	// BootstrapScript runs once in an instance's life, so systemd must start the
	// services after a reboot.
	BootstrapScript Form = "bootstrap.sh"
)

// Node describes the node to configure. Equal nodes have the same files.
type Node struct {
	Form     Form
	Cluster  Cluster
	Instance instance.Facts
	Machine  machine.Facts

	// Name is the node's name; if empty, the kubelet chooses the name.
	Name       string
	Kubelet    Kubelet
	Containerd Containerd

	// Environment maps each service to its environment variables; see
	// nodeconfig.DefaultEnvironment.
	Environment map[string]map[string]string
	Network     nodeconfig.Network
	// Disks configures the instance store. An empty Strategy leaves the disks
	// unused.
	Disks nodeconfig.LocalStorage
	// MountBPF mounts a bpf file system at /sys/fs/bpf.
	MountBPF bool
}

// Cluster is the cluster to join.
type Cluster struct {
	Name     string
	Endpoint string
	// CA is PEM.
	CA []byte
	// DNS lists the DNS servers of pods.
	DNS  []string
	IPv6 bool
	// Outpost says that the cluster is a local cluster on an Outpost. ID then
	// identifies the cluster.
	Outpost bool
	ID      string
}

// PodsOrigin says where the number of pods comes from.
type PodsOrigin string

// The origins.
const (
	// Addresses is the number of pods for which the instance has addresses.
	Addresses PodsOrigin = "addresses"
	// Expression is the result of maxPodsExpression.
	Expression PodsOrigin = "maxPodsExpression"
	// Unlimited is Addresses that only memory is reserved for: bootstrap.sh was called with
	// --use-max-pods false, and the kubelet has a limit of its own.
	Unlimited PodsOrigin = "--use-max-pods"
)

// Kubelet holds the kubelet's settings.
type Kubelet struct {
	// Template is the base configuration; nil means the built-in one.
	Template map[string]any
	// Config overrides the generated configuration.
	Config nodeconfig.Document
	// Flags come after the generated ones.
	Flags []string
	// MaxPods is the number of pods of the node, and PodsFrom where it comes from.
	MaxPods  int
	PodsFrom PodsOrigin
	// ReservedCgroups says whether reservations are tied to cgroups.
	ReservedCgroups bool
}

// Containerd holds containerd's settings.
type Containerd struct {
	// Template is the base configuration, with the placeholder SANDBOX_IMAGE; nil
	// means the built-in one.
	Template []byte
	// Config overrides Template, and BaseRuntimeSpec the built-in OCI specification.
	Config          nodeconfig.TOML
	BaseRuntimeSpec nodeconfig.Document
	// PauseImage is the image that holds a pod's namespaces open.
	PauseImage string
	// SOCI says that the SOCI snapshotter pulls the images.
	SOCI bool
	// MaxConcurrentDownloads limits the downloads of one image; 0 means containerd's
	// default. KeepUnpackedLayers keeps the packed layers of images.
	MaxConcurrentDownloads int
	KeepUnpackedLayers     bool
}

// classic is EKS's registry account in the regions that are enabled by default.
const classic = "602401143452"

// accounts returns EKS's registry account of each region. Sources: amazon-eks-ami, July 2026, and
// https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html.
func accounts() map[string]string {
	return map[string]string{
		"ap-northeast-1": classic, "ap-northeast-2": classic, "ap-northeast-3": classic, "ap-south-1": classic,
		"ap-southeast-1": classic, "ap-southeast-2": classic, "ca-central-1": classic, "eu-central-1": classic,
		"eu-north-1": classic, "eu-west-1": classic, "eu-west-2": classic, "eu-west-3": classic, "sa-east-1": classic,
		"us-east-1": classic, "us-east-2": classic, "us-west-1": classic, "us-west-2": classic,

		"af-south-1": "877085696533", "ap-east-1": "800184023465", "ap-east-2": "533267051163",
		"ap-south-2": "900889452093", "ap-southeast-3": "296578399912", "ap-southeast-4": "491585149902",
		"ap-southeast-5": "151610086707", "ap-southeast-6": "333609536671", "ap-southeast-7": "121268973566",
		"ca-west-1": "761377655185", "cn-north-1": "918309763551", "cn-northwest-1": "961992271922",
		"eu-central-2": "900612956339", "eu-isoe-west-1": "249663109785", "eu-south-1": "590381155156",
		"eu-south-2": "455263428931", "eusc-de-east-1": "877088126301", "il-central-1": "066635153087",
		"me-central-1": "759879836304", "me-south-1": "558608220178", "mx-central-1": "730335286997",
		"us-gov-east-1": "151742754352", "us-gov-west-1": "013241004608", "us-iso-east-1": "725322719131",
		"us-iso-west-1": "608367168043", "us-isob-east-1": "187977181151", "us-isob-west-1": "321162350305",
		"us-isof-east-1": "171035529773", "us-isof-south-1": "676585237158",
	}
}

// homes lists the region whose registry serves the unknown regions of a partition,
// by the prefix of the region names. The empty prefix matches all other regions.
var homes = []struct{ prefix, region string }{
	{"us-gov-", "us-gov-west-1"}, {"cn-", "cn-northwest-1"}, {"us-iso-", "us-iso-east-1"},
	{"us-isob-", "us-isob-east-1"},
	{"us-isof-", "us-isof-south-1"}, {"eu-isoe-", "eu-isoe-west-1"}, {"eusc-", "eusc-de-east-1"}, {"", "us-west-2"},
}

// Registry is EKS's registry for one region.
type Registry struct{ Account, Region, Domain string }

// RegistryOf returns the registry that serves a region. domain is the partition's
// domain, such as amazonaws.com. account, if not empty, replaces EKS's account in the
// same region.
func RegistryOf(region, domain, account string) Registry {
	if account != "" {
		return Registry{account, region, domain}
	}
	all := accounts()
	if known, ok := all[region]; ok {
		return Registry{known, region, domain}
	}
	for _, h := range homes {
		if strings.HasPrefix(region, h.prefix) {
			return Registry{all[h.region], h.region, domain}
		}
	}
	return Registry{} // unreachable: the last prefix matches all regions
}

// Host returns the registry's host name, or with fips the host name of its FIPS
// endpoint. Not every region has a FIPS endpoint.
func (r Registry) Host(fips bool) string {
	service := "ecr"
	if fips {
		service = "ecr-fips"
	}
	return fmt.Sprintf("%s.dkr.%s.%s.%s", r.Account, service, r.Region, r.Domain)
}

// PauseImage returns the reference of EKS's pause image in a registry.
func PauseImage(host, version string) string { return host + "/eks/pause:" + version }

// Regions lists the known regions.
func Regions() []string { return slices.Sorted(maps.Keys(accounts())) }

// Described is the cluster that DescribeCluster returns.
type Described struct {
	Endpoint string
	// CA is PEM.
	CA                 []byte
	IPv4CIDR, IPv6CIDR string
	// IPFamily is ipv4, ipv6 or empty.
	IPFamily string
	// Outpost says that the control plane runs on an Outpost. ID is then the
	// cluster's ID.
	Outpost bool
	ID      string
}

// Call is a call of bootstrap.sh and the facts that were gathered for it.
type Call struct {
	*arguments.Arguments
	Instance instance.Facts
	Machine  machine.Facts
	// KubeletConfig is the kubelet's template from the machine. Users edit this
	// file before they call bootstrap.sh.
	KubeletConfig []byte
	// ContainerdConfig is the user's own template for containerd; nil means the
	// built-in template.
	ContainerdConfig []byte
	PauseImage       string
	// Image has the image's settings, which override the template. Arguments override
	// them.
	Image nodeconfig.Spec
}

// Take overrides the arguments with what DescribeCluster returns, as Amazon Linux 2's script
// does. The flags decide about the address family and an Outpost.
func (c *Call) Take(d Described) {
	a := *c.Arguments
	a.Endpoint, a.CA = d.Endpoint, base64.StdEncoding.EncodeToString(d.CA)
	a.ClusterID = cmp.Or(d.ID, a.ClusterID)
	if a.Outpost == nil {
		a.Outpost = &d.Outpost
	}
	a.IPFamily = cmp.Or(c.Family(), d.IPFamily, "ipv4")
	a.ServiceIPv4CIDR = cmp.Or(d.IPv4CIDR, a.ServiceIPv4CIDR)
	a.ServiceIPv6CIDR = cmp.Or(d.IPv6CIDR, a.ServiceIPv6CIDR)
	c.Arguments = &a
}

// Networks returns the networks of the cluster's services, as far as they are known.
func (c Call) Networks() []string { return []string{c.ServiceIPv4CIDR, c.ServiceIPv6CIDR} }

// Family returns the cluster's address family, ipv4 or ipv6; empty if nothing says it.
func (c Call) Family() string {
	if c.IPFamily == "" && c.ServiceIPv6CIDR != "" {
		return "ipv6"
	}
	return c.IPFamily
}

// Wants returns the facts about the instance that the call needs.
func (c Call) Wants() instance.Wants {
	v6 := c.Family() == "ipv6"
	return instance.Wants{
		IPv6:           v6,
		PrivateDNSName: named(c.Machine),
		VPCNetworks:    !v6 && len(c.DNS) == 0 && c.ServiceIPv4CIDR == "",
		Domain:         true,
		Limits:         true,
	}
}

// Node returns the node to configure. The warnings name features that the machine
// does not support.
func (c Call) Node() (*Node, []string, error) {
	n := &Node{
		Form: BootstrapScript, Instance: c.Instance, Machine: c.Machine,
		Cluster: Cluster{Name: c.Cluster, Endpoint: c.Endpoint, IPv6: c.Family() == "ipv6", ID: c.ClusterID},
		Kubelet: Kubelet{
			MaxPods: c.Instance.MaxPods(), PodsFrom: Addresses,
			// The kubelet refuses --reserved-cpus together with reserved cgroups.
			ReservedCgroups: !strings.Contains(c.KubeletExtraArgs, "--reserved-cpus"),
		},
		Containerd: Containerd{Template: c.ContainerdConfig, PauseImage: c.PauseImage},
		Disks:      nodeconfig.LocalStorage{Strategy: strategies[c.LocalDisks]},
		MountBPF:   c.MountBPF,
	}
	if !c.UseMaxPods {
		n.Kubelet.PodsFrom = Unlimited
	}
	if c.KubeletExtraArgs != "" {
		n.Kubelet.Flags = []string{c.KubeletExtraArgs}
	}
	if named(c.Machine) {
		n.Name = c.Instance.PrivateDNSName
	}
	if err := json.Unmarshal(c.KubeletConfig, &n.Kubelet.Template); err != nil {
		return nil, nil, fmt.Errorf("reading the kubelet's template: %w", err)
	}
	if n.Kubelet.Template == nil {
		return nil, nil, errors.New("reading the kubelet's template: the file is not a JSON object")
	}
	if err := c.cluster(&n.Cluster); err != nil {
		return nil, nil, err
	}
	dns, err := c.dns()
	if err != nil {
		return nil, nil, err
	}
	n.Cluster.DNS = dns
	n.Kubelet.Config = c.Image.Kubelet.Config
	return n, append(n.warnings(), n.refused()...), nil
}

// strategies maps the values of --local-disks to those of a NodeConfig.
var strategies = map[string]string{"raid0": nodeconfig.RAID0, "raid10": nodeconfig.RAID10, "mount": nodeconfig.Mount}

func (c Call) cluster(to *Cluster) error {
	ca, err := nodeconfig.Unbase64(c.CA)
	if err != nil {
		return fmt.Errorf("--b64-cluster-ca: %w", err)
	}
	to.CA, to.Outpost = ca, c.Outpost != nil && *c.Outpost
	if to.Outpost && to.ID == "" {
		return errors.New("--cluster-id is missing: a local cluster on an Outpost is identified by this ID")
	}
	return nil
}

func (c Call) dns() ([]string, error) {
	if len(c.DNS) > 0 {
		return c.DNS, nil
	}
	cidr := c.ServiceIPv4CIDR
	if c.Family() == "ipv6" {
		if cidr = c.ServiceIPv6CIDR; cidr == "" {
			return nil, errors.New("an IPv6 cluster needs --service-ipv6-cidr or --dns-cluster-ip")
		}
	}
	if cidr != "" {
		network, err := arguments.Network(cidr)
		if err != nil {
			return nil, fmt.Errorf("the services' network: %w", err)
		}
		return []string{nodeconfig.ClusterDNS(network)}, nil
	}
	// EKS's service network is 172.20.0.0/16 if the VPC lies in 10.0.0.0/8, otherwise
	// 10.100.0.0/16.
	for _, network := range c.Instance.VPCNetworks {
		if strings.HasPrefix(network, "10.") {
			return []string{"172.20.0.10"}, nil
		}
	}
	return []string{"10.100.0.10"}, nil
}
