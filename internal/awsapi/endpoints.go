package awsapi

import (
	"cmp"
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

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
	pages := ec2.NewDescribeVpcEndpointsPaginator(a.ec2, &ec2.DescribeVpcEndpointsInput{Filters: filters("vpc-id", v.ID)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return explain("listing the endpoints of the VPC "+v.ID, err)
		}
		for _, e := range page.VpcEndpoints {
			v.Endpoints = append(v.Endpoints, endpointOf(e))
		}
	}
	slices.SortFunc(v.Endpoints, func(a, b Endpoint) int { return cmp.Compare(a.Service, b.Service) })
	return nil
}

func endpointOf(in types.VpcEndpoint) Endpoint {
	e := Endpoint{
		ID: aws.ToString(in.VpcEndpointId), Service: aws.ToString(in.ServiceName), State: string(in.State), PrivateDNS: aws.ToBool(in.PrivateDnsEnabled),
		Interface: in.VpcEndpointType == types.VpcEndpointTypeInterface, Subnets: in.SubnetIds, Tables: in.RouteTableIds, Policy: aws.ToString(in.PolicyDocument),
	}
	e.IPv6Only = in.IpAddressType == types.IpAddressTypeIpv6
	// An endpoint for S3 may serve only on-premises networks by name, and leave the
	// VPC to a gateway endpoint.
	if in.DnsOptions != nil && aws.ToBool(in.DnsOptions.PrivateDnsOnlyForInboundResolverEndpoint) {
		e.PrivateDNS = false
	}
	for _, g := range in.Groups {
		e.Groups = append(e.Groups, aws.ToString(g.GroupId))
	}
	return e
}
