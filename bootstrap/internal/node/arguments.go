package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

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
	// Described is nil when DescribeCluster was not needed.
	Described *Described
	Instance  instance.Facts
	Machine   machine.Facts
	// KubeletConfig is the kubelet's template from the machine. Users edit this
	// file before they call bootstrap.sh.
	KubeletConfig []byte
	// ContainerdConfig is the user's own template for containerd; nil means the
	// built-in template.
	ContainerdConfig []byte
	PauseImage       string
}

// Family returns the cluster's address family, ipv4 or ipv6.
func (c Call) Family() string {
	switch {
	case c.IPFamily != "":
		return c.IPFamily
	case c.ServiceIPv6CIDR != "":
		return "ipv6"
	case c.Described != nil && c.Described.IPFamily != "":
		return c.Described.IPFamily
	default:
		return "ipv4"
	}
}

// Wants returns the facts about the instance that the call needs.
func (c Call) Wants() instance.Wants {
	v6 := c.Family() == "ipv6"
	return instance.Wants{
		IPv6:           v6,
		PrivateDNSName: named(c.Machine),
		VPCNetworks:    !v6 && len(c.DNS) == 0 && c.ipv4CIDR() == "",
		Domain:         true,
		Limits:         true,
	}
}

// ipv4CIDR returns the network of the cluster's services. DescribeCluster overrides
// the flag, as in Amazon Linux 2's script.
func (c Call) ipv4CIDR() string {
	if c.Described != nil && c.Described.IPv4CIDR != "" {
		return c.Described.IPv4CIDR
	}
	if c.ServiceIPv4CIDR == arguments.NoNetwork {
		return ""
	}
	return c.ServiceIPv4CIDR
}

func (c Call) ipv6CIDR() string {
	if c.Described != nil && c.Described.IPv6CIDR != "" {
		return c.Described.IPv6CIDR
	}
	return c.ServiceIPv6CIDR
}

// Node returns the node to configure. The warnings name features that the machine
// does not support.
func (c Call) Node() (*Node, []string, error) {
	n := &Node{
		Form: BootstrapScript, Instance: c.Instance, Machine: c.Machine,
		Cluster: Cluster{Name: c.Cluster, Endpoint: c.Endpoint, IPv6: c.Family() == "ipv6", ID: c.ClusterID},
		Kubelet: Kubelet{
			MaxPods: c.Instance.MaxPods(), LimitPods: c.UseMaxPods, ReservedPods: c.Instance.MaxPods(),
			// The kubelet refuses --reserved-cpus together with reserved cgroups.
			ReservedCgroups: !strings.Contains(c.KubeletExtraArgs, "--reserved-cpus"),
		},
		Containerd: Containerd{Template: c.ContainerdConfig, PauseImage: c.PauseImage},
		Disks:      nodeconfig.LocalStorage{Strategy: strategies[c.LocalDisks]},
		MountBPF:   c.MountBPF,
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
	n.Kubelet.Config = nil
	return n, append(n.warnings(), n.refused()...), nil
}

// strategies maps the values of --local-disks to those of a NodeConfig.
var strategies = map[string]string{"raid0": nodeconfig.RAID0, "raid10": nodeconfig.RAID10, "mount": nodeconfig.Mount}

func (c Call) cluster(to *Cluster) error {
	if d := c.Described; d != nil {
		to.Endpoint, to.CA, to.Outpost = d.Endpoint, d.CA, d.Outpost
		if d.ID != "" {
			to.ID = d.ID
		}
	} else {
		ca, err := nodeconfig.Unbase64(c.CA)
		if err != nil {
			return fmt.Errorf("--b64-cluster-ca: %w", err)
		}
		to.CA = ca
	}
	if c.Outpost != nil {
		to.Outpost = *c.Outpost
	}
	if to.Outpost && to.ID == "" {
		return errors.New("--cluster-id is missing: a local cluster on an Outpost is identified by this ID")
	}
	return nil
}

func (c Call) dns() ([]string, error) {
	if len(c.DNS) > 0 {
		return c.DNS, nil
	}
	cidr := c.ipv4CIDR()
	if c.Family() == "ipv6" {
		if cidr = c.ipv6CIDR(); cidr == "" {
			return nil, errors.New("an IPv6 cluster needs --service-ipv6-cidr or --dns-cluster-ip")
		}
	}
	if cidr != "" {
		network, err := arguments.Network(cidr)
		if err != nil {
			return nil, fmt.Errorf("the services' network: %w", err)
		}
		return []string{tenth(network)}, nil
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
