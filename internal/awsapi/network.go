package awsapi

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

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
	ID              string
	Ingress, Egress []Rule
}

// Rules are those of one direction.
func (g SecurityGroup) Rules(egress bool) []Rule {
	if egress {
		return g.Egress
	}
	return g.Ingress
}

// SecurityGroups describes security groups by their IDs.
func (a *AWS) SecurityGroups(ctx context.Context, ids []string) ([]SecurityGroup, error) {
	out, err := a.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: ids})
	if err != nil {
		return nil, explain("describing the security groups", err)
	}
	return show.Each(out.SecurityGroups, func(in types.SecurityGroup) SecurityGroup {
		return SecurityGroup{aws.ToString(in.GroupId), rulesOf(in.IpPermissions), rulesOf(in.IpPermissionsEgress)}
	}), nil
}

func rulesOf(permissions []types.IpPermission) []Rule {
	var rules []Rule
	for _, p := range permissions {
		rules = append(rules, Rule{
			Protocol: aws.ToString(p.IpProtocol), From: int(aws.ToInt32(p.FromPort)), To: int(aws.ToInt32(p.ToPort)),
			Groups: show.Each(p.UserIdGroupPairs,
				func(g types.UserIdGroupPair) string { return aws.ToString(g.GroupId) }),
			CIDRs: slices.Concat(show.Each(p.IpRanges, func(c types.IpRange) string { return aws.ToString(c.CidrIp) }),
				show.Each(p.Ipv6Ranges, func(c types.Ipv6Range) string { return aws.ToString(c.CidrIpv6) })),
			Lists: show.Each(p.PrefixListIds,
				func(l types.PrefixListId) string { return aws.ToString(l.PrefixListId) }),
		})
	}
	return rules
}

// VPC is a network with its settings for name resolution.
type VPC struct {
	ID string
	// CIDRs and IPv6 are the networks of the VPC.
	CIDRs, IPv6             []string
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
		if s := c.CidrBlockState; s == nil || s.State == types.VpcCidrBlockStateCodeAssociated {
			v.CIDRs = append(v.CIDRs, aws.ToString(c.CidrBlock))
		}
	}
	for _, c := range out.Vpcs[0].Ipv6CidrBlockAssociationSet {
		if s := c.Ipv6CidrBlockState; s == nil || s.State == types.VpcCidrBlockStateCodeAssociated {
			v.IPv6 = append(v.IPv6, aws.ToString(c.Ipv6CidrBlock))
		}
	}
	for name, to := range map[types.VpcAttributeName]*bool{
		types.VpcAttributeNameEnableDnsSupport: &v.DNSSupport, types.VpcAttributeNameEnableDnsHostnames: &v.DNSHostname,
	} {
		attribute, err := a.ec2.DescribeVpcAttribute(ctx, &ec2.DescribeVpcAttributeInput{VpcId: aws.String(id),
			Attribute: name})
		if err != nil {
			return VPC{}, explain(doing, err)
		}
		if value := cmp.Or(attribute.EnableDnsSupport, attribute.EnableDnsHostnames); value != nil {
			*to = aws.ToBool(value.Value)
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

// ACL is a network access list, which filters traffic at the border of its subnets.
type ACL struct {
	ID      string
	Subnets []string
	// Entries are in the order of their numbers. The first match decides.
	Entries []ACLEntry
}

// ACLEntry allows or denies traffic.
type ACLEntry struct {
	Number        int
	Egress, Allow bool
	// Protocol is an IP protocol number, or -1 for all.
	Protocol string
	From, To int
	// CIDR is the other side.
	CIDR string
}

// tcp is the protocol number of TCP.
const tcp = "6"

// ACLs describes the network ACLs of subnets.
func (a *AWS) ACLs(ctx context.Context, subnets []string) ([]ACL, error) {
	pages := ec2.NewDescribeNetworkAclsPaginator(a.ec2, &ec2.DescribeNetworkAclsInput{
		Filters: []types.Filter{{Name: aws.String("association.subnet-id"), Values: subnets}},
	})
	return collect(each[types.NetworkAcl](ctx, "describing the network ACLs", pages), aclOf)
}

func aclOf(in types.NetworkAcl) ACL {
	acl := ACL{ID: aws.ToString(in.NetworkAclId), Subnets: show.Each(in.Associations,
		func(s types.NetworkAclAssociation) string { return aws.ToString(s.SubnetId) })}
	for _, e := range in.Entries {
		entry := ACLEntry{
			Number: int(aws.ToInt32(e.RuleNumber)), Egress: aws.ToBool(e.Egress),
			Allow: e.RuleAction == types.RuleActionAllow, Protocol: aws.ToString(e.Protocol), To: 65535,
			CIDR: first(e.CidrBlock, e.Ipv6CidrBlock),
		}
		if e.PortRange != nil {
			entry.From, entry.To = int(aws.ToInt32(e.PortRange.From)), int(aws.ToInt32(e.PortRange.To))
		}
		acl.Entries = append(acl.Entries, entry)
	}
	slices.SortFunc(acl.Entries, func(a, b ACLEntry) int { return a.Number - b.Number })
	return acl
}

// Lets says whether TCP to a range of ports may pass: out to a network with egress,
// otherwise in from the network. An entry that denies a part of the network or the
// ports denies the whole.
func (l ACL) Lets(egress bool, from, to int, network string) bool {
	other, err := netip.ParsePrefix(network)
	if err != nil {
		return false
	}
	for _, e := range l.Entries {
		cidr, err := netip.ParsePrefix(e.CIDR)
		if err != nil || e.Egress != egress || e.Protocol != "-1" && e.Protocol != tcp {
			continue
		}
		switch {
		case !e.Allow && cidr.Overlaps(other) && e.From <= to && e.To >= from:
			return false
		case e.Allow && cidr.Bits() <= other.Bits() && cidr.Contains(other.Addr()) && e.From <= from && e.To >= to:
			return true
		}
	}
	return false
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
	// IPv6Only says that an interface endpoint has no IPv4 addresses.
	IPv6Only bool
	// Subnets are those in which an interface endpoint has addresses. Groups are its
	// security groups.
	Subnets, Groups []string
	// Tables are the route tables with a route to a gateway endpoint.
	Tables []string
	// Policy is the policy document.
	Policy string
}

func (a *AWS) endpoints(ctx context.Context, v *VPC) error {
	pages := ec2.NewDescribeVpcEndpointsPaginator(a.ec2,
		&ec2.DescribeVpcEndpointsInput{Filters: filters("vpc-id", v.ID)})
	all, err := collect(each[types.VpcEndpoint](ctx, "listing the endpoints of the VPC "+v.ID, pages), endpointOf)
	v.Endpoints = slices.SortedFunc(slices.Values(all),
		func(a, b Endpoint) int { return cmp.Compare(a.Service, b.Service) })
	return err
}

func endpointOf(in types.VpcEndpoint) Endpoint {
	return Endpoint{
		ID: aws.ToString(in.VpcEndpointId), Service: aws.ToString(in.ServiceName), State: string(in.State),
		// An endpoint for S3 may serve only on-premises networks by name, and leave the
		// VPC to a gateway endpoint.
		PrivateDNS: aws.ToBool(in.PrivateDnsEnabled) &&
			(in.DnsOptions == nil || !aws.ToBool(in.DnsOptions.PrivateDnsOnlyForInboundResolverEndpoint)),
		Interface: in.VpcEndpointType == types.VpcEndpointTypeInterface,
		IPv6Only:  in.IpAddressType == types.IpAddressTypeIpv6,
		Subnets:   in.SubnetIds, Tables: in.RouteTableIds, Policy: aws.ToString(in.PolicyDocument),
		Groups: show.Each(in.Groups, func(g types.SecurityGroupIdentifier) string { return aws.ToString(g.GroupId) }),
	}
}

// Zone is a private hosted zone.
type Zone struct {
	// ID is the zone's ID, and Name its domain without a dot at the end.
	ID, Name string
	// Account and Service are the account or the AWS service that owns the zone.
	Account, Service string
}

// Zones lists the private hosted zones of a VPC, in the SDK's region.
func (a *AWS) Zones(ctx context.Context, vpc string) ([]Zone, error) {
	var zones []Zone
	in := &route53.ListHostedZonesByVPCInput{VPCId: aws.String(vpc), VPCRegion: route53types.VPCRegion(a.Region)}
	for {
		out, err := a.route53.ListHostedZonesByVPC(ctx, in)
		if err != nil {
			return nil, explain("listing the private hosted zones of the VPC "+vpc, err)
		}
		for _, z := range out.HostedZoneSummaries {
			zone := Zone{ID: aws.ToString(z.HostedZoneId),
				Name: strings.ToLower(strings.TrimSuffix(aws.ToString(z.Name), "."))}
			if z.Owner != nil {
				zone.Account, zone.Service = aws.ToString(z.Owner.OwningAccount), aws.ToString(z.Owner.OwningService)
			}
			zones = append(zones, zone)
		}
		if aws.ToString(out.NextToken) == "" {
			return zones, nil
		}
		in.NextToken = out.NextToken
	}
}

// RecordsFor says whether a hosted zone has records for a name, its own or those of
// a wildcard.
func (a *AWS) RecordsFor(ctx context.Context, zone, name string) (bool, error) {
	pages := route53.NewListResourceRecordSetsPaginator(a.route53,
		&route53.ListResourceRecordSetsInput{HostedZoneId: aws.String(zone)})
	doing := "listing the records of the hosted zone " + zone
	for r, err := range each[route53types.ResourceRecordSet](ctx, doing, pages) {
		if err != nil {
			return false, err
		}
		if recordMatches(aws.ToString(r.Name), name) && r.Type != route53types.RRTypeNs &&
			r.Type != route53types.RRTypeSoa {
			return true, nil
		}
	}
	return false, nil
}

// recordMatches says whether a record's name, which may begin with a wildcard, is
// for a name. Route 53 writes the asterisk as \052.
func recordMatches(record, name string) bool {
	record = strings.ToLower(strings.TrimSuffix(record, "."))
	domain, wild := strings.CutPrefix(strings.Replace(record, `\052`, "*", 1), "*.")
	return record == name || wild && strings.HasSuffix(name, "."+domain)
}
