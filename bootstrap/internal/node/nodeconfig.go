package node

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
)

// The minimum for the SOCI snapshotter. On smaller instances, its cost to pods exceeds
// the gain. Source: amazon-eks-ami #2352.
const (
	sociCPUs      = 4
	sociMemoryMiB = 7 * 1024
)

// WantsOf returns the facts about the instance that a NodeConfig needs. First boot
// requests no other facts.
func WantsOf(c *nodeconfig.NodeConfig, m machine.Facts) instance.Wants {
	prefix, err := netip.ParsePrefix(c.Spec.Cluster.CIDR)
	reserved, _ := c.Spec.Kubelet.Config["kubeReserved"].(map[string]any)
	return instance.Wants{
		IPv6:           err == nil && prefix.Addr().Is6(),
		PrivateDNSName: named(m) && !c.Spec.Feature(nodeconfig.InstanceIDNodeName),
		Domain:         !m.HasPause,
		Limits:         c.Spec.Kubelet.Config["maxPods"] == nil || reserved["memory"] == nil,
		Size:           c.Spec.Kubelet.AsksForSize(),
	}
}

// named reports whether the kubelet needs the node's name as an argument. Since 1.26
// the cloud provider is external, and the kubelet's default is the host name.
func named(m machine.Facts) bool { return !m.Kubelet.Less(1, 26) }

// FromNodeConfig returns the node for a merged and validated NodeConfig. The
// warnings name features that the machine does not support.
func FromNodeConfig(c *nodeconfig.NodeConfig, i instance.Facts, m machine.Facts,
	pauseImage string) (*Node, []string, error) {
	prefix, err := netip.ParsePrefix(c.Spec.Cluster.CIDR)
	if err != nil {
		return nil, nil, fmt.Errorf("spec.cluster.cidr: %w", err)
	}
	n := &Node{
		Form: NodeConfig, Instance: i, Machine: m,
		Cluster: Cluster{
			Name: c.Spec.Cluster.Name, Endpoint: c.Spec.Cluster.APIServerEndpoint,
			CA:  c.Spec.Cluster.CertificateAuthority,
			DNS: []string{nodeconfig.ClusterDNS(prefix.Addr())}, IPv6: prefix.Addr().Is6(),
			Outpost: c.Spec.Cluster.Outpost(), ID: c.Spec.Cluster.ID,
		},
		Kubelet: Kubelet{
			Config: c.Spec.Kubelet.Config, Flags: c.Spec.Kubelet.Flags,
			MaxPods: i.MaxPods(), PodsFrom: Addresses, ReservedCgroups: true,
		},
		Containerd: Containerd{
			Config: c.Spec.Containerd.Config, BaseRuntimeSpec: c.Spec.Containerd.BaseRuntimeSpec,
			PauseImage: pauseImage,
		},
		Environment: c.Spec.Instance.Environment, Network: c.Spec.Instance.Network, Disks: c.Spec.Instance.LocalStorage,
	}
	if named(m) {
		n.Name = i.PrivateDNSName
		if c.Spec.Feature(nodeconfig.InstanceIDNodeName) {
			n.Name = i.ID
		}
	}
	warnings := n.evaluateMaxPods(c.Spec.Kubelet)
	if c.Spec.Feature(nodeconfig.FastImagePull) {
		why := n.refuseSOCI()
		n.Containerd.SOCI = why == ""
		if why != "" {
			warnings = append(warnings, nodeconfig.FastImagePull+" is off: "+why)
		}
	}
	return n, slices.Concat(warnings, n.warnings(), n.refused()), nil
}

// refused returns why the kubelet will end when it starts. These are warnings, because
// the kubelet may be of a newer patch release than the rules.
func (n *Node) refused() []string {
	minor := n.Machine.Kubelet.Minor
	base := kubelet.Base(minor)
	if n.Kubelet.Template != nil {
		base = maps.Clone(n.Kubelet.Template)
		if n.Kubelet.ReservedCgroups {
			kubelet.ReserveInCgroups(base)
		}
	}
	var list []string
	for _, p := range kubelet.Problems(minor, base, n.Kubelet.Config,
		nodeconfig.Split(strings.Join(n.Kubelet.Flags, " "))) {
		list = append(list, nodeconfig.Printable(fmt.Sprintf("the kubelet will not start: %s: %s", p.Field, p.Text)))
	}
	return list
}

// evaluateMaxPods sets MaxPods to the result of maxPodsExpression. As upstream, an
// expression that fails for this instance type is a warning and has no effect,
// because one NodeConfig serves many types.
func (n *Node) evaluateMaxPods(k nodeconfig.Kubelet) []string {
	e, err := k.CompileMaxPods()
	if e == nil && err == nil {
		return nil
	}
	var pods int64
	values := map[string]int64{
		nodeconfig.DefaultENIs: int64(n.Instance.Limits.ENIs),
		nodeconfig.IPsPerENI:   int64(n.Instance.Limits.IPsPerENI),
		nodeconfig.MaxPods:     int64(n.Kubelet.MaxPods),
	}
	if k.AsksForSize() {
		values[nodeconfig.VCPUs], values[nodeconfig.PhysicalMemoryMiB] = int64(n.Instance.Limits.VCPUs),
			int64(n.Instance.Limits.MemoryMiB)
		if values[nodeconfig.VCPUs] == 0 {
			err = errors.New("the size of the instance type is unknown")
		}
	}
	if err == nil {
		pods, err = e.Pods(values)
	}
	if err == nil && (pods < 1 || pods > math.MaxInt32) {
		err = fmt.Errorf("the result is %d", pods)
	}
	if err != nil {
		return []string{fmt.Sprintf("maxPodsExpression has no effect on a %s, which takes %d pods: %v",
			n.Instance.Type, n.Kubelet.MaxPods, err)}
	}
	n.Kubelet.MaxPods, n.Kubelet.PodsFrom = int(pods), Expression
	return nil
}

// ReservedPods returns the number of pods for which memory is reserved: the limit
// that the kubelet uses (amazon-eks-ami #1698, #2580). If maxPodsExpression has a
// result, the user's maxPods has no effect on the reservation, as upstream documents.
// bootstrap.sh does not read the kubelet's arguments.
func (n *Node) ReservedPods() int {
	k := n.Kubelet
	pods, ok := kubelet.MaxPods(n.Machine.Kubelet.Minor, k.Config, nodeconfig.Split(strings.Join(k.Flags, " ")))
	if n.Form == BootstrapScript || k.PodsFrom == Expression || !ok || pods < 1 || pods > math.MaxInt32 {
		return k.MaxPods
	}
	return int(pods)
}

func (n *Node) refuseSOCI() string {
	switch m := n.Machine; {
	case !m.SOCI:
		return "the image has no " + machine.SOCIUnit
	case m.CPUs < sociCPUs || m.MemoryMiB < sociMemoryMiB:
		return fmt.Sprintf("fast pulls need %d CPUs and %d MiB of memory, but the instance has %d CPUs and %d MiB",
			sociCPUs, sociMemoryMiB, m.CPUs, m.MemoryMiB)
	default:
		return ""
	}
}

// warnings returns the warnings about the machine, for both contracts.
func (n *Node) warnings() []string {
	var list []string
	if !n.Machine.CredentialProvider {
		list = append(list, fmt.Sprintf("the image has no %s/%s: private images of ECR cannot be pulled",
			machine.CredentialProviderFolder, machine.CredentialProviderName))
	}
	if n.Machine.CgroupV1 && !n.Machine.Kubelet.Less(1, 35) && n.Kubelet.Config["failCgroupV1"] != false {
		list = append(list, "the machine uses cgroup v1, but kubelet 1.35 and later needs cgroup v2; boot with "+
			"systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false in spec.kubelet.config")
	}
	return list
}
