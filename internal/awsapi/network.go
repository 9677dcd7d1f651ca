package awsapi

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Subnet is a subnet and its default route.
type Subnet struct {
	ID, VPC, Zone, CIDR string
	Free                int
	Tags                map[string]string
	// Default is the target of the default route: an internet gateway (igw-), a NAT
	// gateway (nat-), a transit gateway (tgw-), another gateway, an interface, or
	// empty.
	Default string
	// PublicAddresses says that instances get a public address when they start.
	PublicAddresses bool
}

// Subnets describes subnets by their IDs.
func (a *AWS) Subnets(ctx context.Context, ids []string) ([]Subnet, error) {
	out, err := a.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: ids})
	if err != nil {
		return nil, explain("describing the subnets", err)
	}
	var subnets []Subnet
	for _, in := range out.Subnets {
		s := Subnet{
			ID: aws.ToString(in.SubnetId), VPC: aws.ToString(in.VpcId), Zone: aws.ToString(in.AvailabilityZone), CIDR: aws.ToString(in.CidrBlock),
			Free: int(aws.ToInt32(in.AvailableIpAddressCount)), Tags: tagsOf(in.Tags), PublicAddresses: aws.ToBool(in.MapPublicIpOnLaunch),
		}
		if s.Default, err = a.defaultRoute(ctx, s); err != nil {
			return nil, err
		}
		subnets = append(subnets, s)
	}
	return subnets, nil
}

// defaultRoute finds a subnet's default route. A subnet without its own route table
// uses the VPC's main table.
func (a *AWS) defaultRoute(ctx context.Context, s Subnet) (string, error) {
	doing := "reading the routes of the subnet " + s.ID
	for _, by := range [][]types.Filter{
		filters("association.subnet-id", s.ID),
		filters("vpc-id", s.VPC, "association.main", "true"),
	} {
		out, err := a.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{Filters: by})
		if err != nil {
			return "", explain(doing, err)
		}
		if len(out.RouteTables) == 0 {
			continue
		}
		for _, r := range out.RouteTables[0].Routes {
			if aws.ToString(r.DestinationCidrBlock) == "0.0.0.0/0" && r.State == types.RouteStateActive {
				for _, to := range []*string{
					r.GatewayId, r.NatGatewayId, r.TransitGatewayId, r.NetworkInterfaceId, r.LocalGatewayId, r.CarrierGatewayId, r.CoreNetworkArn,
				} {
					if to != nil {
						return *to, nil
					}
				}
			}
		}
		return "", nil
	}
	return "", nil
}

// Rule allows traffic.
type Rule struct {
	// Protocol is tcp, udp, icmp or -1 for all.
	Protocol string
	From, To int
	// Groups, CIDRs and prefix lists are the other side.
	Groups, CIDRs, Lists []string
}

// Covers says whether the rule allows a port of tcp or udp.
func (r Rule) Covers(protocol string, port int) bool {
	return r.Protocol == "-1" || r.Protocol == protocol && r.From <= port && port <= r.To
}

// SecurityGroup is a list of rules in each direction.
type SecurityGroup struct {
	ID, Name, VPC   string
	Ingress, Egress []Rule
	Tags            map[string]string
}

// SecurityGroups describes security groups by their IDs.
func (a *AWS) SecurityGroups(ctx context.Context, ids []string) ([]SecurityGroup, error) {
	out, err := a.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: ids})
	if err != nil {
		return nil, explain("describing the security groups", err)
	}
	var groups []SecurityGroup
	for _, in := range out.SecurityGroups {
		groups = append(groups, SecurityGroup{
			ID: aws.ToString(in.GroupId), Name: aws.ToString(in.GroupName), VPC: aws.ToString(in.VpcId), Tags: tagsOf(in.Tags),
			Ingress: rulesOf(in.IpPermissions), Egress: rulesOf(in.IpPermissionsEgress),
		})
	}
	return groups, nil
}

func rulesOf(permissions []types.IpPermission) []Rule {
	var rules []Rule
	for _, p := range permissions {
		r := Rule{Protocol: aws.ToString(p.IpProtocol), From: int(aws.ToInt32(p.FromPort)), To: int(aws.ToInt32(p.ToPort))}
		for _, g := range p.UserIdGroupPairs {
			r.Groups = append(r.Groups, aws.ToString(g.GroupId))
		}
		for _, c := range p.IpRanges {
			r.CIDRs = append(r.CIDRs, aws.ToString(c.CidrIp))
		}
		for _, c := range p.Ipv6Ranges {
			r.CIDRs = append(r.CIDRs, aws.ToString(c.CidrIpv6))
		}
		for _, l := range p.PrefixListIds {
			r.Lists = append(r.Lists, aws.ToString(l.PrefixListId))
		}
		rules = append(rules, r)
	}
	return rules
}

// VPC is a network with its settings for name resolution.
type VPC struct {
	ID                      string
	CIDRs                   []string
	DNSSupport, DNSHostname bool
	// Domains are the domains of the DHCP options. AWS's default set has none.
	Domains []string
	// NameServers are the name servers of the DHCP options.
	NameServers []string
	// NoDHCP says that the VPC has no DHCP options, so that instances get no name
	// server.
	NoDHCP bool
	// DHCP is the ID of the DHCP options, or empty.
	DHCP string
	// Endpoints are its private endpoints for services.
	Endpoints []Endpoint
}

// Endpoint is a private endpoint for a service.
type Endpoint struct {
	ID string
	// Service is a name such as com.amazonaws.eu-west-1.ecr.api.
	Service string
	// State is available, pendingAcceptance or another.
	State string
	// PrivateDNS says that the service's name resolves to the endpoint. Interface
	// says that the endpoint is an address and not a route.
	PrivateDNS, Interface bool
}

// Resolvers are the addresses of AWS's name server in the VPC: the third address of
// each range.
func (v VPC) Resolvers() []string {
	var list []string
	for _, c := range v.CIDRs {
		if prefix, err := netip.ParsePrefix(c); err == nil {
			list = append(list, prefix.Masked().Addr().Next().Next().String())
		}
	}
	return list
}

// VPC describes a VPC.
func (a *AWS) VPC(ctx context.Context, id string) (VPC, error) {
	doing := "describing the VPC " + id
	out, err := a.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{VpcIds: []string{id}})
	if err != nil {
		return VPC{}, explain(doing, err)
	}
	if len(out.Vpcs) != 1 {
		return VPC{}, errIncomplete(doing, "VPC")
	}
	v := VPC{ID: id}
	for _, c := range out.Vpcs[0].CidrBlockAssociationSet {
		v.CIDRs = append(v.CIDRs, aws.ToString(c.CidrBlock))
	}
	for name, to := range map[types.VpcAttributeName]*bool{
		types.VpcAttributeNameEnableDnsSupport: &v.DNSSupport, types.VpcAttributeNameEnableDnsHostnames: &v.DNSHostname,
	} {
		attribute, err := a.ec2.DescribeVpcAttribute(ctx, &ec2.DescribeVpcAttributeInput{VpcId: aws.String(id), Attribute: name})
		if err != nil {
			return VPC{}, explain(doing, err)
		}
		for _, value := range []*types.AttributeBooleanValue{attribute.EnableDnsSupport, attribute.EnableDnsHostnames} {
			if value != nil {
				*to = aws.ToBool(value.Value)
			}
		}
	}
	if err := a.dhcp(ctx, aws.ToString(out.Vpcs[0].DhcpOptionsId), &v); err != nil {
		return VPC{}, err
	}
	return v, a.endpoints(ctx, &v)
}

func (a *AWS) dhcp(ctx context.Context, id string, v *VPC) error {
	if v.NoDHCP = id == "" || id == "default"; v.NoDHCP {
		return nil
	}
	v.DHCP = id
	out, err := a.ec2.DescribeDhcpOptions(ctx, &ec2.DescribeDhcpOptionsInput{DhcpOptionsIds: []string{id}})
	if err != nil {
		return explain("describing the DHCP options "+id, err)
	}
	for _, o := range out.DhcpOptions {
		for _, c := range o.DhcpConfigurations {
			for _, value := range c.Values {
				switch aws.ToString(c.Key) {
				case "domain-name":
					v.Domains = append(v.Domains, aws.ToString(value.Value))
				case "domain-name-servers":
					v.NameServers = append(v.NameServers, aws.ToString(value.Value))
				}
			}
		}
	}
	return nil
}

func (a *AWS) endpoints(ctx context.Context, v *VPC) error {
	pages := ec2.NewDescribeVpcEndpointsPaginator(a.ec2, &ec2.DescribeVpcEndpointsInput{Filters: filters("vpc-id", v.ID)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return explain("listing the endpoints of the VPC "+v.ID, err)
		}
		for _, e := range page.VpcEndpoints {
			v.Endpoints = append(v.Endpoints, Endpoint{
				aws.ToString(e.VpcEndpointId), aws.ToString(e.ServiceName), string(e.State), aws.ToBool(e.PrivateDnsEnabled),
				e.VpcEndpointType == types.VpcEndpointTypeInterface,
			})
		}
	}
	slices.SortFunc(v.Endpoints, func(a, b Endpoint) int { return cmp.Compare(a.Service, b.Service) })
	return nil
}

// Architectures are the architectures of an instance type, in AWS's spelling.
func (a *AWS) Architectures(ctx context.Context, instanceType string) ([]string, error) {
	doing := "describing the instance type " + instanceType
	out, err := a.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{types.InstanceType(instanceType)}})
	if err != nil {
		return nil, explain(doing, err)
	}
	if len(out.InstanceTypes) != 1 || out.InstanceTypes[0].ProcessorInfo == nil {
		return nil, errIncomplete(doing, "instance type")
	}
	var list []string
	for _, arch := range out.InstanceTypes[0].ProcessorInfo.SupportedArchitectures {
		list = append(list, string(arch))
	}
	return list, nil
}
