package preflight

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

func checkEndpointAccess(f *facts) *result {
	c := f.cluster.value
	remedy := fmt.Sprintf("aws eks update-cluster-config --name %s --resources-vpc-config endpointPrivateAccess=true",
		f.target.Cluster)
	switch {
	case c.PrivateAccess && f.otherVPC() == "":
		return good("private access is on")
	case c.PrivateAccess && !c.PublicAccess:
		return maybe("aws ec2 describe-subnets --filters Name=vpc-id,Values="+c.VPC,
			"only private access is on, for addresses in %s: nodes in %s need a route there", c.VPC, f.otherVPC())
	case !c.PublicAccess:
		return bad(remedy, "neither private nor public access is on")
	case cmp.Or(f.subnets.err, f.nats.err) != nil:
		return f.unseen(f.subnets.err, f.nats.err)
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
			return r
		}
		doubt = r
	}
	return cmp.Or(doubt, good("%s", said))
}

// public checks the way from a subnet to the public endpoint. VPC endpoints do not
// lead there. It returns nil when the way is open.
func (f *facts) public(s awsapi.Subnet, off, said, remedy string) *result {
	e := f.exit(s)
	in, out := f.listed(e.addresses)
	switch {
	case e.verdict == Fail:
		return bad(remedy, "%s, and %s %s", off, s.ID, e.evidence)
	case everybodyMay(f.cluster.value):
		return nil
	case len(out) > 0 && len(in) == 0:
		return bad(remedy, "%s, and %s: nodes in %s come from %s over %s", off, said, s.ID, strings.Join(out, ", "),
			e.via)
	case len(out) > 0:
		return maybe(remedy, "%s, and %s: nodes in %s also come from %s over %s", off, said, s.ID,
			strings.Join(out, ", "), e.via)
	case len(in) > 0:
		return nil
	default:
		return maybe(remedy, "%s, and %s: the public address of the nodes' gateway must be in these networks", off,
			said)
	}
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

func everybodyMay(c awsapi.Cluster) bool {
	return len(c.PublicCIDRs) == 0 || slices.Contains(c.PublicCIDRs, anywhere)
}

// gateways reads the NAT gateways of the nodes' networks, and the security groups of
// the endpoints.
func (f *facts) gateways(ctx context.Context, a *awsapi.AWS) {
	f.nats = after(f.subnets, func(subnets []awsapi.Subnet) fact[[]awsapi.NAT] {
		vpcs := unique(show.Each(subnets, func(s awsapi.Subnet) string { return s.VPC }))
		some := all(vpcs, func(vpc string) ([]awsapi.NAT, error) { return a.NATs(ctx, vpc) })
		return learn(slices.Concat(some.value...), some.err)
	})
	f.endpointGroups = after(f.vpc, func(v awsapi.VPC) fact[[]awsapi.SecurityGroup] {
		var ids []string
		for _, e := range v.Endpoints {
			ids = append(ids, e.Groups...)
		}
		if len(ids) == 0 {
			return fact[[]awsapi.SecurityGroup]{}
		}
		return learn(a.SecurityGroups(ctx, unique(ids)))
	})
	f.hiding = f.readZones(ctx, a)
}

func checkEgress(f *facts) *result {
	var seen []string
	var doubt *result
	for _, s := range f.subnets.value {
		over, r := f.egress(s)
		switch {
		case r == nil:
			seen = append(seen, s.ID+" over "+over)
		case r.verdict == Warn:
			if doubt == nil {
				doubt = r
			}
		default:
			return r
		}
	}
	return cmp.Or(doubt, good("%s", strings.Join(seen, ", ")))
}

// egress checks the way from a subnet to the services. It returns what leads there,
// or the worst fault.
func (f *facts) egress(s awsapi.Subnet) (over string, worst *result) {
	e := f.exit(s)
	add := func(r *result) {
		if worst == nil || worst.verdict == Warn && r.verdict == Fail {
			worst = r
		}
	}
	var missing, maybes []string
	direct := false // some calls take the exit
	for _, svc := range f.services() {
		said := f.serve(s, svc)
		switch {
		case said.takes && said.fault != nil && svc.maybe == "":
			add(said.fault)
		case said.takes:
		case e.verdict == OK:
			direct = true
		case svc.maybe != "":
			maybes = append(maybes, fmt.Sprintf("%s, which nodes need %s", f.serviceName(svc.name), svc.maybe))
		case said.fault != nil && e.verdict == Fail:
			fault := *said.fault
			fault.evidence = s.ID + " " + e.evidence + ", and " + fault.evidence
			add(&fault)
		default:
			missing = append(missing, f.serviceName(svc.name))
		}
	}
	switch {
	case len(missing) > 0:
		add(f.without(s, e, missing))
	case len(maybes) > 0:
		add(maybe(f.newEndpoint(s, strings.Split(maybes[0], ",")[0]),
			"%s %s, and the VPC has no endpoint for %s", s.ID, e.evidence, strings.Join(maybes, "; ")))
	}
	if direct || e.verdict == Warn && len(missing) > 0 {
		if r := f.leavesNode(s); r != nil {
			add(r)
		}
	}
	if direct {
		return e.via, worst
	}
	return "endpoints", worst
}

// without is the result for a subnet whose exit does not work and that lacks
// endpoints.
func (f *facts) without(s awsapi.Subnet, e exit, missing []string) *result {
	return &result{
		verdict: e.verdict, remedy: cmp.Or(e.remedy, f.newEndpoint(s, missing[0])),
		evidence: fmt.Sprintf("%s %s, and the VPC has no endpoint for %s", s.ID, e.evidence,
			strings.Join(missing, ", ")),
	}
}

// newEndpoint is the command that makes an endpoint for a service. A gateway
// endpoint for S3 needs no name in the VPC, and costs nothing.
func (f *facts) newEndpoint(s awsapi.Subnet, service string) string {
	if strings.HasSuffix(service, ".s3") {
		table := cmp.Or(s.Table, "ROUTE-TABLE")
		return fmt.Sprintf("aws ec2 create-vpc-endpoint --vpc-id %s --vpc-endpoint-type Gateway --service-name %s "+
			"--route-table-ids %s", s.VPC, service, table)
	}
	return fmt.Sprintf("aws ec2 create-vpc-endpoint --vpc-id %s --vpc-endpoint-type Interface --private-dns-enabled "+
		"--service-name %s --subnet-ids %s --security-group-ids %s",
		s.VPC, service, s.ID, f.cluster.value.ClusterSecurityGroup)
}

// leavesNode checks that the node's security groups let traffic out to the
// internet. It returns nil when they do, or when they are unknown.
func (f *facts) leavesNode(s awsapi.Subnet) *result {
	groups := f.nodeGroups.value
	if f.nodeGroups.err != nil || len(groups) == 0 || s.CIDR == "" {
		return nil
	}
	names := strings.Join(ids(groups), ", ")
	remedy := fmt.Sprintf("aws ec2 authorize-security-group-egress --group-id %s --protocol tcp --port 443 --cidr %s",
		groups[0].ID, anywhere)
	switch said := lets(groups, true, port{"tcp", 443}, nil, []string{anywhere}); {
	case said == open:
		return nil
	case said == unclear || toPublicNetworks(groups):
		return maybe(remedy, "%s of the node let nothing out to port 443 of the whole internet: check that their "+
			"rules contain the addresses of AWS's services", names)
	}
	return bad(remedy, "%s of the node let nothing out to port 443 of AWS's services", names)
}

// toPublicNetworks says whether a rule lets out to some public network to port 443.
func toPublicNetworks(groups []awsapi.SecurityGroup) bool {
	return any443(groups, true, func(r awsapi.Rule) bool {
		return slices.ContainsFunc(r.CIDRs, func(c string) bool {
			network, err := netip.ParsePrefix(c)
			return err == nil && network.Addr().Is4() && !private(network)
		})
	})
}

// checkEgressSSM checks the services that Systems Manager needs for a session
// (https://docs.aws.amazon.com/systems-manager/latest/userguide/setup-create-vpc.html).
func checkEgressSSM(f *facts) *result {
	for _, s := range f.subnets.value {
		e := f.exit(s)
		for _, svc := range []service{{name: "ssm"}, {name: "ssmmessages"}} {
			said := f.serve(s, svc)
			name := f.serviceName(svc.name)
			switch {
			case said.takes && said.fault == nil || !said.takes && e.verdict == OK:
			case said.fault != nil:
				return maybe(said.fault.remedy, "%s; the node still joins", said.fault.evidence)
			default:
				return maybe(f.newEndpoint(s, name), "%s %s, and the VPC has no endpoint for %s; the node still joins",
					s.ID, e.evidence, name)
			}
		}
	}
	return good("from %s", strings.Join(show.Each(f.subnets.value, func(s awsapi.Subnet) string { return s.ID }), ", "))
}
