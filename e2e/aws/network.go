//go:build linux

package aws

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// NATAddress is the public address of the sample's NAT gateway.
const NATAddress = "198.51.100.1"

// NAT makes a NAT gateway with a public address in a subnet. The address of the
// first one is NATAddress.
func (w *World) NAT(name, subnet string) {
	w.t.Helper()
	allocation := "eipalloc-" + strings.TrimPrefix(name, "nat-")
	address := w.Do("ec2:AllocateAddress", "Domain", "vpc")
	w.Name(allocation, address, `<allocationId>(.*?)<`)
	if name == "nat-1" {
		w.Name(NATAddress, address, `<publicIp>(.*?)<`)
	}
	w.Name(name, w.Do("ec2:CreateNatGateway", "SubnetId", subnet, "AllocationId", allocation), `<natGatewayId>(.*?)<`)
}

// Route replaces a route of a route table. The target is a parameter of
// CreateRoute and its value. Without a target, the route is only deleted.
func (w *World) Route(table, destination string, target ...string) {
	w.t.Helper()
	family := "DestinationCidrBlock"
	if strings.Contains(destination, ":") {
		family = "DestinationIpv6CidrBlock"
	}
	if _, err := w.try(Region, "ec2:DeleteRoute", "RouteTableId", table, family, destination); err != nil && len(target) == 0 {
		w.t.Fatalf("deleting the route to %s: %v", destination, err)
	}
	if len(target) > 0 {
		w.Do("ec2:CreateRoute", append([]string{"RouteTableId", table, family, destination}, target...)...)
	}
}

// Endpoint makes an endpoint for a service in the sample's network and names it
// vpce-SERVICE. One for s3 is a gateway with routes in the private subnets; all
// others have the cluster's security group. Parameters replace these.
func (w *World) Endpoint(service string, parameters ...string) {
	w.t.Helper()
	all := map[string]string{"VpcId": "vpc-1", "ServiceName": "com.amazonaws." + Region + "." + service}
	if service == "s3" {
		all["VpcEndpointType"], all["RouteTableId.1"], all["RouteTableId.2"], all["PrivateDnsEnabled"] = "Gateway", "rtb-1", "rtb-main", "false"
	} else {
		all["VpcEndpointType"], all["SubnetId.1"], all["SecurityGroupId.1"], all["PrivateDnsEnabled"] = "Interface", "subnet-1", "sg-cluster", "true"
	}
	for i := 0; i+1 < len(parameters); i += 2 {
		all[parameters[i]] = parameters[i+1]
	}
	var list []string
	for name, value := range all {
		if value != "" {
			list = append(list, name, value)
		}
	}
	w.Name("vpce-"+service, w.Do("ec2:CreateVpcEndpoint", list...), `<vpcEndpointId>(.*?)<`)
}

// IPv6 gives the sample's network and its private subnets IPv6 networks, a route to
// an egress-only internet gateway, and network ACLs that let IPv6 through. The networks are 2001:db8:0:N::/64.
func (w *World) IPv6() {
	w.t.Helper()
	w.Do("ec2:AssociateVpcCidrBlock", "VpcId", "vpc-1", "AmazonProvidedIpv6CidrBlock", "true")
	found := regexp.MustCompile(`<ipv6CidrBlock>(.*?)00::/56<`).FindSubmatch(w.Do("ec2:DescribeVpcs", "VpcId.1", "vpc-1"))
	require.NotNil(w.t, found, "the network has no IPv6 block")
	w.names.add("2001:db8::/56", string(found[1])+"00::/56")
	w.Name("eigw-1", w.Do("ec2:CreateEgressOnlyInternetGateway", "VpcId", "vpc-1"), `<egressOnlyInternetGatewayId>(.*?)<`)
	for i, table := range []string{"rtb-1", "rtb-main"} {
		n := fmt.Sprint(i + 1)
		w.names.add("2001:db8:0:"+n+"::/64", string(found[1])+"0"+n+"::/64")
		w.Do("ec2:AssociateSubnetCidrBlock", "SubnetId", "subnet-"+n, "Ipv6CidrBlock", "2001:db8:0:"+n+"::/64")
		w.Do("ec2:ModifySubnetAttribute", "SubnetId", "subnet-"+n, "AssignIpv6AddressOnCreation.Value", "true")
		w.Route(table, "::/0", "EgressOnlyInternetGatewayId", "eigw-1")
		for _, egress := range []string{"true", "false"} {
			w.Do("ec2:CreateNetworkAclEntry", "NetworkAclId", "acl-"+n, "RuleNumber", "101", "Protocol", "-1", "RuleAction", "allow", "Egress", egress, "Ipv6CidrBlock", "::/0")
		}
	}
	w.Do("ec2:AuthorizeSecurityGroupEgress", "GroupId", "sg-cluster", "IpPermissions.1.IpProtocol", "-1", "IpPermissions.1.Ipv6Ranges.1.CidrIpv6", "::/0")
}

// Zone makes a private hosted zone of the sample's network, with an address for
// each name, and names the zone Z-DOMAIN.
func (w *World) Zone(domain string, names ...string) {
	w.t.Helper()
	made := w.Do("route53:POST /2013-04-01/hostedzone", fmt.Sprintf(`<CreateHostedZoneRequest xmlns="https://route53.amazonaws.com/doc/2013-04-01/">`+
		`<Name>%s</Name><VPC><VPCRegion>%s</VPCRegion><VPCId>vpc-1</VPCId></VPC><CallerReference>%[1]s</CallerReference>`+
		`<HostedZoneConfig><Comment>made by a test</Comment><PrivateZone>true</PrivateZone></HostedZoneConfig></CreateHostedZoneRequest>`, domain, Region))
	w.Name("Z-"+domain, made, `<Id>/hostedzone/(.*?)<`)
	for _, name := range names {
		w.Do("route53:POST /2013-04-01/hostedzone/Z-"+domain+"/rrset/", fmt.Sprintf(`<ChangeResourceRecordSetsRequest xmlns="https://route53.amazonaws.com/doc/2013-04-01/">`+
			`<ChangeBatch><Changes><Change><Action>CREATE</Action><ResourceRecordSet><Name>%s</Name><Type>A</Type><TTL>60</TTL>`+
			`<ResourceRecords><ResourceRecord><Value>10.0.0.9</Value></ResourceRecord></ResourceRecords></ResourceRecordSet></Change></Changes></ChangeBatch></ChangeResourceRecordSetsRequest>`, name))
	}
}

// edit replaces a part of moto's responses.
type edit struct {
	pattern *regexp.Regexp
	by      string
}

// Edit replaces the matches of a pattern in moto's responses to an action, for
// states that moto does not reach: a supplement of ours.
func (w *World) Edit(action, pattern, by string) {
	w.t.Helper()
	compiled, err := regexp.Compile(pattern)
	require.NoError(w.t, err)
	w.edits[action] = append(w.edits[action], edit{compiled, by})
}

// edited applies the edits of an action to a response.
func (w *World) edited(action string, answer any, err error) (any, error) {
	if raw, forwarded := answer.(*endpoint.Raw); forwarded && err == nil {
		for _, e := range w.edits[action] {
			raw.Body = e.pattern.ReplaceAll(raw.Body, []byte(e.by))
		}
	}
	return answer, err
}
