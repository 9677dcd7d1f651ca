//go:build linux

package aws

import (
	"fmt"
	"strings"
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

// Zone makes a private hosted zone of the sample's network, with an address for
// each name, and names the zone Z-DOMAIN.
func (w *World) Zone(domain string, names ...string) {
	w.t.Helper()
	made := w.Do("route53:POST /2013-04-01/hostedzone", fmt.Sprintf(`<CreateHostedZoneRequest xmlns="https://route53.amazonaws.com/doc/2013-04-01/">`+
		`<Name>%s</Name><VPC><VPCRegion>%s</VPCRegion><VPCId>vpc-1</VPCId></VPC><CallerReference>%[1]s</CallerReference>`+
		`<HostedZoneConfig><PrivateZone>true</PrivateZone></HostedZoneConfig></CreateHostedZoneRequest>`, domain, Region))
	w.Name("Z-"+domain, made, `<Id>/hostedzone/(.*?)<`)
	for _, name := range names {
		w.Do("route53:POST /2013-04-01/hostedzone/Z-"+domain+"/rrset/", fmt.Sprintf(`<ChangeResourceRecordSetsRequest xmlns="https://route53.amazonaws.com/doc/2013-04-01/">`+
			`<ChangeBatch><Changes><Change><Action>CREATE</Action><ResourceRecordSet><Name>%s</Name><Type>A</Type><TTL>60</TTL>`+
			`<ResourceRecords><ResourceRecord><Value>10.0.0.9</Value></ResourceRecord></ResourceRecords></ResourceRecordSet></Change></Changes></ChangeBatch></ChangeResourceRecordSetsRequest>`, name))
	}
}
