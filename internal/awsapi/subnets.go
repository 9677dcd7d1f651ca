package awsapi

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Subnet is a subnet and its routes.
type Subnet struct {
	ID, VPC, Zone string
	// CIDR and IPv6 are the networks of the subnet. Either may be empty.
	CIDR, IPv6 string
	Free       int
	Tags       map[string]string
	// Owner is the account that owns the subnet, and that may share the subnet with
	// others.
	Owner string
	// PublicAddresses and IPv6Addresses say that instances get such an address when
	// they start.
	PublicAddresses, IPv6Addresses bool
	// Outpost is the ARN of the subnet's Outpost, or empty.
	Outpost string
	// Blocked says that VPC Block Public Access stops traffic through internet
	// gateways in both directions.
	Blocked bool
	// DNS64 says that AWS's name server makes IPv6 addresses of IPv4 addresses.
	DNS64 bool
	// Table is the ID of the route table. It is empty when AWS does not show the
	// table, because another account owns the subnet.
	Table  string
	Routes []Route
}

// Route is a route out of a VPC.
type Route struct {
	// To is a network or the ID of a prefix list.
	To string
	// Via is the target: an internet gateway (igw-), an egress-only internet gateway
	// (eigw-), a NAT gateway (nat-), a transit gateway (tgw-) or another.
	Via string
	// Blackhole says that the target is gone, so that the traffic is lost.
	Blackhole bool
}

// Subnets describes subnets by their IDs.
func (a *AWS) Subnets(ctx context.Context, ids []string) ([]Subnet, error) {
	out, err := a.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: ids})
	if err != nil {
		return nil, explain("describing the subnets", err)
	}
	var subnets []Subnet
	tables := map[string][]types.RouteTable{}
	for _, in := range out.Subnets {
		s := subnetOf(in)
		if _, known := tables[s.VPC]; !known {
			if tables[s.VPC], err = a.routeTables(ctx, s.VPC); err != nil {
				return nil, err
			}
		}
		s.Table, s.Routes = routesOf(tables[s.VPC], s.ID)
		subnets = append(subnets, s)
	}
	return subnets, nil
}

func subnetOf(in types.Subnet) Subnet {
	s := Subnet{
		ID: aws.ToString(in.SubnetId), VPC: aws.ToString(in.VpcId), Zone: aws.ToString(in.AvailabilityZone),
		CIDR: aws.ToString(in.CidrBlock), Free: int(aws.ToInt32(in.AvailableIpAddressCount)), Tags: tagsOf(in.Tags),
		Owner: aws.ToString(in.OwnerId), PublicAddresses: aws.ToBool(in.MapPublicIpOnLaunch),
		IPv6Addresses: aws.ToBool(in.AssignIpv6AddressOnCreation), DNS64: aws.ToBool(in.EnableDns64),
		Outpost: aws.ToString(in.OutpostArn), Blocked: in.BlockPublicAccessStates != nil &&
			in.BlockPublicAccessStates.InternetGatewayBlockMode == types.BlockPublicAccessModeBlockBidirectional,
	}
	for _, c := range in.Ipv6CidrBlockAssociationSet {
		if c.Ipv6CidrBlockState == nil || c.Ipv6CidrBlockState.State == types.SubnetCidrBlockStateCodeAssociated {
			s.IPv6 = aws.ToString(c.Ipv6CidrBlock)
		}
	}
	return s
}

func (a *AWS) routeTables(ctx context.Context, vpc string) ([]types.RouteTable, error) {
	pages := ec2.NewDescribeRouteTablesPaginator(a.ec2, &ec2.DescribeRouteTablesInput{Filters: filters("vpc-id", vpc)})
	return collect(each[types.RouteTable](ctx, "reading the routes of the VPC "+vpc, pages),
		func(t types.RouteTable) types.RouteTable { return t })
}

// routesOf finds the route table of a subnet. A subnet without its own uses the
// VPC's main table.
func routesOf(tables []types.RouteTable, subnet string) (id string, routes []Route) {
	find := func(match func(types.RouteTableAssociation) bool) int {
		return slices.IndexFunc(tables, func(t types.RouteTable) bool {
			return slices.ContainsFunc(t.Associations, match)
		})
	}
	i := find(func(a types.RouteTableAssociation) bool { return aws.ToString(a.SubnetId) == subnet })
	if i < 0 {
		i = find(func(a types.RouteTableAssociation) bool { return aws.ToBool(a.Main) })
	}
	if i < 0 {
		return "", nil
	}
	for _, r := range tables[i].Routes {
		to := first(r.DestinationCidrBlock, r.DestinationIpv6CidrBlock, r.DestinationPrefixListId)
		via := first(r.GatewayId, r.NatGatewayId, r.TransitGatewayId, r.VpcPeeringConnectionId,
			r.EgressOnlyInternetGatewayId, r.NetworkInterfaceId, r.LocalGatewayId, r.CarrierGatewayId, r.CoreNetworkArn,
			r.OdbNetworkArn, r.InstanceId)
		if via != "local" {
			routes = append(routes, Route{to, via, r.State == types.RouteStateBlackhole || via == ""})
		}
	}
	return aws.ToString(tables[i].RouteTableId), routes
}

// first returns the first of several values that is set.
func first(all ...*string) string { return cmp.Or(show.Each(all, aws.ToString)...) }

// NAT is a NAT gateway.
type NAT struct {
	ID, VPC string
	// State is available, pending, failed, deleting or deleted.
	State string
	// Private says that the gateway has no public address.
	Private bool
	// Addresses are the public addresses.
	Addresses []string
	// Subnet is the gateway's subnet. A regional gateway, and one that does not
	// work, has none.
	Subnet *Subnet
}

// NATs describes the NAT gateways of a VPC.
func (a *AWS) NATs(ctx context.Context, vpc string) ([]NAT, error) {
	var gateways []NAT
	places := map[string][]int{} // the gateways of a subnet
	pages := ec2.NewDescribeNatGatewaysPaginator(a.ec2, &ec2.DescribeNatGatewaysInput{Filter: filters("vpc-id", vpc)})
	err := look(ctx, "describing the NAT gateways of the VPC "+vpc, pages, func(in types.NatGateway) {
		n := NAT{ID: aws.ToString(in.NatGatewayId), VPC: vpc, State: string(in.State),
			Private: in.ConnectivityType == types.ConnectivityTypePrivate}
		for _, address := range in.NatGatewayAddresses {
			if public := aws.ToString(address.PublicIp); public != "" {
				n.Addresses = append(n.Addresses, public)
			}
		}
		if in.State == types.NatGatewayStateAvailable && in.SubnetId != nil {
			places[*in.SubnetId] = append(places[*in.SubnetId], len(gateways))
		}
		gateways = append(gateways, n)
	})
	if err != nil || len(places) == 0 {
		return gateways, err
	}
	all, err := a.Subnets(ctx, slices.Sorted(maps.Keys(places)))
	for _, s := range all {
		for _, i := range places[s.ID] {
			gateways[i].Subnet = &s
		}
	}
	return gateways, err
}

// Selector selects resources by ID, or by name and tags together.
type Selector struct {
	ID, Name string
	// Owner is an account, self or amazon. It is only for images.
	Owner string
	// Tags must all match. The value * matches every value.
	Tags map[string]string
}

// filters are the filters of a selector. id and name are EC2's names for them.
func (s Selector) filters(id, name string) []types.Filter {
	list := slices.DeleteFunc(filters(id, s.ID, name, s.Name), func(f types.Filter) bool { return f.Values[0] == "" })
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		list = append(list, tagFilter(key, s.Tags[key])...)
	}
	return list
}

// tagFilter selects by a tag. The value * is any.
func tagFilter(key, value string) []types.Filter {
	if value == "*" {
		return filters("tag-key", key)
	}
	return filters("tag:"+key, value)
}

// SelectSubnets returns the IDs of the selected subnets.
func (a *AWS) SelectSubnets(ctx context.Context, s Selector) ([]string, error) {
	pages := ec2.NewDescribeSubnetsPaginator(a.ec2, &ec2.DescribeSubnetsInput{Filters: s.filters("subnet-id", "")})
	return collect(each[types.Subnet](ctx, "searching for subnets", pages),
		func(in types.Subnet) string { return aws.ToString(in.SubnetId) })
}

// SelectSecurityGroups returns the IDs of the selected security groups.
func (a *AWS) SelectSecurityGroups(ctx context.Context, s Selector) ([]string, error) {
	pages := ec2.NewDescribeSecurityGroupsPaginator(a.ec2,
		&ec2.DescribeSecurityGroupsInput{Filters: s.filters("group-id", "group-name")})
	return collect(each[types.SecurityGroup](ctx, "searching for security groups", pages),
		func(in types.SecurityGroup) string { return aws.ToString(in.GroupId) })
}

// SelectImages returns the selected images. Without an owner, a selector with a
// name finds only images of the account and of Amazon, as in Karpenter.
func (a *AWS) SelectImages(ctx context.Context, s Selector) ([]Image, error) {
	in := &ec2.DescribeImagesInput{Filters: s.filters("image-id", "name"), IncludeDeprecated: aws.Bool(true)}
	switch {
	case s.Owner != "":
		in.Owners = []string{s.Owner}
	case s.Name != "":
		in.Owners = []string{"self", "amazon"}
	}
	return a.described(ctx, "searching for images", in)
}
