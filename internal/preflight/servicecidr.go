package preflight

import (
	"net/netip"
	"slices"
)

// docker is the network of Docker's bridge, which AL2 images and older control
// planes have
// (https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html).
const docker = "172.17.0.0/16"

func checkServiceCIDR(f *facts) result {
	for _, err := range []error{f.cluster.err, f.subnets.err, f.vpc.err} {
		if err != nil {
			return f.unseen(err)
		}
	}
	c, v := f.cluster.value, f.vpc.value
	look := "aws ec2 describe-vpcs --vpc-ids " + v.ID + " --query Vpcs[0].CidrBlockAssociationSet[].CidrBlock"
	blocks := slices.Concat(v.CIDRs, v.IPv6)
	for _, block := range blocks {
		if overlap(block, c.ServiceCIDR) {
			return bad(look, "the service network %s overlaps %s of %s: EKS cannot change the service network, so the cluster needs another one when it is created, or another VPC",
				c.ServiceCIDR, block, v.ID)
		}
	}
	if address := f.strangeDNS(); address != "" {
		return bad(f.userDataOf(f.userData.value.Family), "the cluster DNS in the user data is %s, outside the service network %s", address, c.ServiceCIDR)
	}
	for _, s := range f.subnets.value {
		for _, r := range s.Routes {
			if covers(c.ServiceCIDR, r.To) {
				return maybe("aws ec2 describe-route-tables --route-table-ids "+s.Table,
					"the service network %s contains %s, to which %s routes over %s: pods and nodes cannot reach machines there", c.ServiceCIDR, r.To, s.ID, r.Via)
			}
		}
	}
	for _, block := range append(blocks, c.ServiceCIDR) {
		if overlap(block, docker) {
			return maybe(look, "%s overlaps %s, the network of Docker's bridge: machines with Docker cannot reach addresses there", block, docker)
		}
	}
	return good("services %s, %s %v", c.ServiceCIDR, v.ID, blocks)
}

// overlap says whether two networks have addresses in common.
func overlap(one, other string) bool {
	a, err := netip.ParsePrefix(one)
	b, alsoErr := netip.ParsePrefix(other)
	return err == nil && alsoErr == nil && a.Overlaps(b)
}

// strangeDNS returns an address of the user data's cluster DNS that is no service.
// NodeLocal DNSCache has link-local addresses, and the VPC may have a DNS server.
func (f *facts) strangeDNS() string {
	if f.userData.err != nil {
		return ""
	}
	for _, a := range f.userData.value.Cluster.DNSAddresses {
		address, err := netip.ParseAddr(a)
		if err != nil || address.IsLinkLocalUnicast() {
			continue
		}
		alone := netip.PrefixFrom(address, address.BitLen()).String()
		if !slices.ContainsFunc(append(slices.Concat(f.vpc.value.CIDRs, f.vpc.value.IPv6), f.cluster.value.ServiceCIDR), func(c string) bool { return covers(c, alone) }) {
			return a
		}
	}
	return ""
}
