package preflight

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

func ids(groups []awsapi.SecurityGroup) []string {
	var list []string
	for _, g := range groups {
		list = append(list, g.ID)
	}
	return list
}

// passage is the decision of security groups about traffic.
type passage int

const (
	shut passage = iota
	// unclear is a rule with a prefix list, which may contain the other side.
	unclear
	open
)

// lets says whether groups allow a port to or from one of the other groups, or to
// all addresses of the networks.
func lets(groups []awsapi.SecurityGroup, egress bool, p port, others, networks []string) passage {
	said := shut
	left := slices.DeleteFunc(slices.Clone(networks), func(n string) bool { return n == "" }) // IPv6-only subnets have no CIDR
	for _, g := range groups {
		rules := g.Ingress
		if egress {
			rules = g.Egress
		}
		for _, r := range rules {
			if !r.Covers(p.protocol, p.number) {
				continue
			}
			if slices.ContainsFunc(r.Groups, func(g string) bool { return slices.Contains(others, g) }) {
				return open
			}
			if n := len(left); n > 0 {
				left = slices.DeleteFunc(left, func(network string) bool {
					return slices.ContainsFunc(r.CIDRs, func(c string) bool { return covers(c, network) })
				})
				if len(left) == 0 {
					return open
				}
			}
			if len(r.Lists) > 0 {
				said = unclear
			}
		}
	}
	return said
}

// covers says whether the network outer contains inner.
func covers(outer, inner string) bool {
	o, err := netip.ParsePrefix(outer)
	i, alsoErr := netip.ParsePrefix(inner)
	return err == nil && alsoErr == nil && o.Bits() <= i.Bits() && o.Contains(i.Addr())
}

// cidr is the network of a subnet in the cluster's family. In an IPv6 cluster, nodes
// and pods have IPv6 addresses.
func (f *facts) cidr(s awsapi.Subnet) string {
	if f.cluster.value.IPFamily == ipv6 {
		return s.IPv6
	}
	return s.CIDR
}

func (f *facts) networks(subnets []awsapi.Subnet) []string {
	var list []string
	for _, s := range subnets {
		list = append(list, f.cidr(s))
	}
	return list
}

// groups returns nil when both sides' security groups are known, and otherwise the
// result to report.
func (f *facts) groups() *result {
	for _, err := range []error{f.nodeGroups.err, f.planeGroups.err, f.subnets.err, f.planeSubnets.err} {
		if err != nil {
			r := f.unseen(err)
			return &r
		}
	}
	if len(f.nodeGroups.value) == 0 || len(f.planeGroups.value) == 0 {
		r := maybe(f.newVersion(map[string]any{"SecurityGroupIds": []string{f.cluster.value.ClusterSecurityGroup}}),
			"%s names no security group, so its instances get the VPC's default group", f.launch.value.From)
		return &r
	}
	return nil
}

// port is a port on which a program listens.
type port struct {
	protocol string
	number   int
}

// side is one end of a path.
type side struct {
	name     string
	groups   []awsapi.SecurityGroup
	networks []string
}

func (f *facts) nodeSide(name string) side {
	return side{name, f.nodeGroups.value, f.networks(f.subnets.value)}
}

func (f *facts) planeSide() side {
	return side{"the control plane", f.planeGroups.value, f.networks(f.planeSubnets.value)}
}

// path checks that the security groups allow ports from one side to the other.
func path(from, to side, ports ...port) result {
	for _, p := range ports {
		for _, direction := range []struct {
			egress      bool
			here, there side
			said        string
		}{
			{true, from, to, fmt.Sprintf("%s of %s let nothing out to port %d of %s", strings.Join(ids(from.groups), ", "), from.name, p.number, to.name)},
			{false, to, from, fmt.Sprintf("%s of %s let nothing in to port %d from %s", strings.Join(ids(to.groups), ", "), to.name, p.number, strings.Join(ids(from.groups), ", "))},
		} {
			verb := "ingress"
			if direction.egress {
				verb = "egress"
			}
			remedy := fmt.Sprintf("aws ec2 authorize-security-group-%s --group-id %s --protocol %s --port %d --source-group %s",
				verb, direction.here.groups[0].ID, p.protocol, p.number, direction.there.groups[0].ID)
			switch lets(direction.here.groups, direction.egress, p, ids(direction.there.groups), direction.there.networks) {
			case shut:
				return bad(remedy, "%s (%s)", direction.said, p.protocol)
			case unclear:
				return maybe(remedy, "%s (%s), unless one of their prefix lists allows it", direction.said, p.protocol)
			case open:
			}
		}
	}
	return good("%s to %s", strings.Join(ids(from.groups), ", "), strings.Join(ids(to.groups), ", "))
}

func checkPort443(f *facts) result {
	if not := f.groups(); not != nil {
		return *not
	}
	return path(f.nodeSide("the node"), f.planeSide(), port{"tcp", 443})
}

func checkPort10250(f *facts) result {
	if not := f.groups(); not != nil {
		return *not
	}
	return path(f.planeSide(), f.nodeSide("the node"), port{"tcp", 10250})
}

// DNS uses both protocols, and metrics-server connects to kubelets.
func checkNodeToNode(f *facts) result {
	if not := f.groups(); not != nil {
		return *not
	}
	return path(f.nodeSide("the node"), f.nodeSide("other nodes"), port{"udp", 53}, port{"tcp", 53}, port{"tcp", 10250})
}
