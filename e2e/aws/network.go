package aws

import (
	"context"
	"slices"
	"strconv"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// ACL is a network ACL.
type ACL struct {
	ID      string        `xml:"networkAclId"`
	Subnets []Association `xml:"associationSet>item"`
	Entries []ACLEntry    `xml:"entrySet>item"`
}

// Association ties an ACL to a subnet.
type Association struct {
	Subnet string `xml:"subnetId"`
}

// ACLEntry is a rule of an ACL.
type ACLEntry struct {
	Number   int        `xml:"ruleNumber"`
	Protocol string     `xml:"protocol"`
	Action   string     `xml:"ruleAction"`
	Egress   bool       `xml:"egress"`
	CIDR     string     `xml:"cidrBlock"`
	Ports    *PortRange `xml:"portRange,omitempty"`
}

// PortRange is from one port to another.
type PortRange struct {
	From int `xml:"from"`
	To   int `xml:"to"`
}

// SecurityGroup is rules in both directions.
type SecurityGroup struct {
	ID      string       `xml:"groupId"`
	VPC     string       `xml:"vpcId"`
	Ingress []Permission `xml:"ipPermissions>item"`
	Egress  []Permission `xml:"ipPermissionsEgress>item"`
	Tags    []Tag        `xml:"tagSet>item"`
}

// Group names a security group.
type Group struct {
	ID string `xml:"groupId"`
}

// Permission lets traffic pass.
type Permission struct {
	Protocol string   `xml:"ipProtocol"`
	From     int      `xml:"fromPort"`
	To       int      `xml:"toPort"`
	Groups   []Group  `xml:"groups>item"`
	CIDRs    []string `xml:"ipRanges>item>cidrIp"`
	Lists    []List   `xml:"prefixListIds>item"`
}

// List names a prefix list.
type List struct {
	ID string `xml:"prefixListId"`
}

type subnetsOut struct {
	Subnets []Subnet `xml:"subnetSet>item"`
}

func (w *World) describeSubnets(_ context.Context, _ endpoint.Call, in struct {
	IDs []string `query:"SubnetId"`
}) (subnetsOut, error) {
	chosen, err := byID(w.Subnets, in.IDs, "InvalidSubnetID.NotFound", func(s Subnet) string { return s.ID })
	return subnetsOut{chosen}, err
}

type routesOut struct {
	Tables []RouteTable `xml:"routeTableSet>item"`
}

func (w *World) describeRoutes(_ context.Context, _ endpoint.Call, in struct {
	Filters []filter `query:"Filter"`
}) (routesOut, error) {
	var out routesOut
	for _, table := range w.Routes {
		of := slices.Clone(table.Subnets)
		if len(of) == 0 {
			of = []string{""}
		}
		for _, subnet := range of {
			ok, err := passes(in.Filters, map[string]string{
				"association.subnet-id": subnet, "vpc-id": table.VPC, "association.main": strconv.FormatBool(table.Main),
			})
			if err != nil {
				return out, err
			}
			if ok {
				out.Tables = append(out.Tables, table)
				break
			}
		}
	}
	return out, nil
}

type groupsOut struct {
	Groups []SecurityGroup `xml:"securityGroupInfo>item"`
}

func (w *World) describeGroups(_ context.Context, _ endpoint.Call, in struct {
	IDs []string `query:"GroupId"`
}) (groupsOut, error) {
	chosen, err := byID(w.Groups, in.IDs, "InvalidGroup.NotFound", func(g SecurityGroup) string { return g.ID })
	return groupsOut{chosen}, err
}

type vpcsOut struct {
	VPCs []VPC `xml:"vpcSet>item"`
}

func (w *World) describeVPCs(_ context.Context, _ endpoint.Call, in struct {
	IDs []string `query:"VpcId"`
}) (vpcsOut, error) {
	chosen, err := byID(w.VPCs, in.IDs, "InvalidVpcID.NotFound", func(v VPC) string { return v.ID })
	return vpcsOut{chosen}, err
}

type vpcAttributeOut struct {
	ID        string `xml:"vpcId"`
	Support   *bool  `xml:"enableDnsSupport>value"`
	Hostnames *bool  `xml:"enableDnsHostnames>value"`
}

func (w *World) describeVPCAttribute(_ context.Context, _ endpoint.Call, in struct {
	ID        string `query:"VpcId"`
	Attribute string `query:"Attribute"`
}) (vpcAttributeOut, error) {
	chosen, err := byID(w.VPCs, []string{in.ID}, "InvalidVpcID.NotFound", func(v VPC) string { return v.ID })
	if err != nil {
		return vpcAttributeOut{}, err
	}
	switch in.Attribute {
	case "enableDnsSupport":
		return vpcAttributeOut{ID: in.ID, Support: &chosen[0].Support}, nil
	case "enableDnsHostnames":
		return vpcAttributeOut{ID: in.ID, Hostnames: &chosen[0].Hostnames}, nil
	default:
		return vpcAttributeOut{}, endpoint.Refuse("the attribute %q", in.Attribute)
	}
}

type dhcpOut struct {
	Options []DHCP `xml:"dhcpOptionsSet>item"`
}

func (w *World) describeDHCP(_ context.Context, _ endpoint.Call, in struct {
	IDs []string `query:"DhcpOptionsId"`
}) (dhcpOut, error) {
	chosen, err := byID(w.DHCP, in.IDs, "InvalidDhcpOptionID.NotFound", func(d DHCP) string { return d.ID })
	return dhcpOut{chosen}, err
}

type endpointsOut struct {
	Endpoints []Endpoint `xml:"vpcEndpointSet>item"`
	Token     string     `xml:"nextToken,omitempty"`
}

func (w *World) describeEndpoints(_ context.Context, _ endpoint.Call, in struct {
	Filters []filter `query:"Filter"`
	Token   string   `query:"NextToken"`
}) (endpointsOut, error) {
	var chosen []Endpoint
	for _, e := range w.Endpoints {
		ok, err := passes(in.Filters, map[string]string{"vpc-id": e.VPC})
		if err != nil {
			return endpointsOut{}, err
		}
		if ok {
			chosen = append(chosen, e)
		}
	}
	var out endpointsOut
	out.Endpoints, out.Token = page(w, chosen, in.Token)
	return out, nil
}

type aclsOut struct {
	ACLs  []ACL  `xml:"networkAclSet>item"`
	Token string `xml:"nextToken,omitempty"`
}

func (w *World) describeACLs(_ context.Context, _ endpoint.Call, in struct {
	Filters []filter `query:"Filter"`
	Token   string   `query:"NextToken"`
}) (aclsOut, error) {
	var chosen []ACL
	for _, acl := range w.ACLs {
		for _, s := range acl.Subnets {
			ok, err := passes(in.Filters, map[string]string{"association.subnet-id": s.Subnet})
			if err != nil {
				return aclsOut{}, err
			}
			if ok {
				chosen = append(chosen, acl)
				break
			}
		}
	}
	var out aclsOut
	out.ACLs, out.Token = page(w, chosen, in.Token)
	return out, nil
}
