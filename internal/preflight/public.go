package preflight

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

func checkEndpointAccess(f *facts) result {
	c, err := f.cluster.value, f.cluster.err
	remedy := fmt.Sprintf("aws eks update-cluster-config --name %s --resources-vpc-config endpointPrivateAccess=true", f.target.Cluster)
	switch {
	case err != nil:
		return f.unseen(err)
	case c.PrivateAccess && f.otherVPC() == "":
		return good("private access is on")
	case c.PrivateAccess && !c.PublicAccess:
		return maybe("aws ec2 describe-subnets --filters Name=vpc-id,Values="+c.VPC,
			"only private access is on, for addresses in %s: nodes in %s need a route there", c.VPC, f.otherVPC())
	case !c.PublicAccess:
		return bad(remedy, "neither private nor public access is on")
	case f.subnets.err != nil:
		return f.unseen(f.subnets.err)
	case f.nats.err != nil:
		return f.unseen(f.nats.err)
	}
	said := "public access is on for all addresses"
	if !everybodyMay(c) {
		said = "public access is for " + strings.Join(c.PublicCIDRs, ", ") + " only"
	}
	off := "private access is off"
	if c.PrivateAccess {
		off = "private access serves only " + c.VPC
	}
	var doubt *result
	for _, s := range f.subnets.value {
		r := f.public(s, off, said, remedy)
		if r == nil {
			continue
		}
		if r.verdict == Fail {
			return *r
		}
		doubt = r
	}
	if doubt != nil {
		return *doubt
	}
	return good("%s", said)
}

// public checks the way from a subnet to the public endpoint. VPC endpoints do not
// lead there. It returns nil when the way is open.
func (f *facts) public(s awsapi.Subnet, off, said, remedy string) *result {
	var r result
	e := f.exit(s)
	in, out := f.listed(e.addresses)
	switch {
	case e.verdict == Fail:
		r = bad(remedy, "%s, and %s %s", off, s.ID, e.said)
	case everybodyMay(f.cluster.value):
		return nil
	case len(out) > 0 && len(in) == 0:
		r = bad(remedy, "%s, and %s: nodes in %s come from %s over %s", off, said, s.ID, strings.Join(out, ", "), e.via)
	case len(out) > 0:
		r = maybe(remedy, "%s, and %s: nodes in %s also come from %s over %s", off, said, s.ID, strings.Join(out, ", "), e.via)
	case len(in) > 0:
		return nil
	default:
		r = maybe(remedy, "%s, and %s: the public address of the nodes' gateway must be in these networks", off, said)
	}
	return &r
}

// otherVPC is a VPC of nodes that is not the cluster's. Names of a cluster with both
// kinds of access resolve to public addresses there.
func (f *facts) otherVPC() string {
	for _, s := range f.subnets.value {
		if s.VPC != f.cluster.value.VPC {
			return s.VPC
		}
	}
	return ""
}

// listed divides public addresses into those that the cluster's public endpoint lets
// in, and the others.
func (f *facts) listed(addresses []string) (in, out []string) {
	for _, a := range addresses {
		address, err := netip.ParseAddr(a)
		if err == nil && slices.ContainsFunc(f.cluster.value.PublicCIDRs, func(c string) bool {
			network, err := netip.ParsePrefix(c)
			return err == nil && network.Contains(address)
		}) {
			in = append(in, a)
		} else {
			out = append(out, a)
		}
	}
	return in, out
}

// everybodyMay says whether the public endpoint lets in all addresses.
func everybodyMay(c awsapi.Cluster) bool {
	return len(c.PublicCIDRs) == 0 || slices.Contains(c.PublicCIDRs, anywhere)
}
