package preflight

import (
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// ipv6 is the cluster's address family with IPv6 addresses for pods and services.
const ipv6 = "ipv6"

func checkIPv6(f *facts) result {
	if f.cluster.err == nil && f.cluster.value.IPFamily != ipv6 {
		return good("not needed: the cluster uses IPv4")
	}
	for _, err := range []error{f.cluster.err, f.subnets.err, f.vpc.err, f.nats.err} {
		if err != nil {
			return f.unseen(err)
		}
	}
	var seen []string
	var doubt *result
	for _, s := range f.subnets.value {
		if r := f.addresses6(s); r != nil {
			return *r
		}
		if r := f.route6(s); r != nil {
			doubt = r
		}
		seen = append(seen, s.ID+" has "+s.IPv6)
	}
	if doubt != nil {
		return *doubt
	}
	return good("%s", strings.Join(seen, ", "))
}

// addresses6 checks that nodes in a subnet get IPv6 addresses
// (https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html).
func (f *facts) addresses6(s awsapi.Subnet) *result {
	var r result
	assigned := s.IPv6Addresses
	if said := f.launch.value.IPv6Address; said != nil {
		assigned = *said
	}
	switch {
	case s.IPv6 == "" && len(f.vpc.value.IPv6) == 0:
		r = bad("aws ec2 associate-vpc-cidr-block --amazon-provided-ipv6-cidr-block --vpc-id "+s.VPC,
			"the cluster uses IPv6, but neither %s nor %s has an IPv6 network", s.ID, s.VPC)
	case s.IPv6 == "":
		r = bad("aws ec2 associate-subnet-cidr-block --ipv6-cidr-block IPV6-NETWORK --subnet-id "+s.ID, "the cluster uses IPv6, but %s has no IPv6 network", s.ID)
	case !assigned && f.target.Instance != "":
		r = bad("aws ec2 assign-ipv6-addresses --ipv6-address-count 1 --network-interface-id $(aws ec2 describe-instances --instance-ids "+f.target.Instance+
			" --query Reservations[0].Instances[0].NetworkInterfaces[0].NetworkInterfaceId --output text)", "the cluster uses IPv6, but %s has no IPv6 address", f.launch.value.From)
	case !assigned:
		r = bad("aws ec2 modify-subnet-attribute --assign-ipv6-address-on-creation --subnet-id "+s.ID, "the cluster uses IPv6, but instances in %s get no IPv6 address", s.ID)
	default:
		return nil
	}
	return &r
}

// route6 checks the route to the internet over IPv6. Nodes join without the route,
// and a subnet without IPv4 access needs none.
func (f *facts) route6(s awsapi.Subnet) *result {
	routes := internet6(s)
	gateway := "--egress-only-internet-gateway-id $(aws ec2 create-egress-only-internet-gateway --vpc-id " + s.VPC +
		" --query EgressOnlyInternetGateway.EgressOnlyInternetGatewayId --output text)"
	target := fmt.Sprintf("--route-table-id %s --destination-ipv6-cidr-block %s %s", s.Table, anywhere6, gateway)
	var r result
	switch {
	case s.Table == "" || len(routes) == 0 && f.exit(s).verdict != OK:
		return nil
	case len(routes) == 0:
		r = maybe("aws ec2 create-route "+target, "%s has no IPv6 route to the internet (%s), so pods reach no IPv6 address outside %s; nodes join", s.ID, anywhere6, s.VPC)
	case routes[0].Blackhole:
		r = maybe("aws ec2 replace-route "+target, "the IPv6 route of %s to %s is a blackhole, so pods reach no IPv6 address outside %s; nodes join", s.ID, routes[0].Via, s.VPC)
	default:
		return nil
	}
	return &r
}
