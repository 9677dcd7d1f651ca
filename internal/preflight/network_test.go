package preflight

import (
	"testing"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// fullAccess is the policy that AWS gives endpoints.
const fullAccess = `{"Statement":[{"Action":"*","Effect":"Allow","Principal":"*","Resource":"*"}]}`

// closed removes the nodes' route to the internet and gives the VPC endpoints.
func closed(f *facts, list []awsapi.Endpoint) {
	for i := range f.subnets.value {
		f.subnets.value[i].Routes = nil
	}
	f.vpc.value.Endpoints = list
	f.endpointGroups = known(f.nodeGroups.value[:1])
}

// change gives one endpoint of a closed network another property.
func change(f *facts, service string, how func(*awsapi.Endpoint)) {
	closed(f, endpoints(0, "available", true))
	for i := range f.vpc.value.Endpoints {
		if e := &f.vpc.value.Endpoints[i]; e.Service == "com.amazonaws.eu-west-1."+service {
			how(e)
		}
	}
}

func policy(statements string) func(*awsapi.Endpoint) {
	return func(e *awsapi.Endpoint) { e.Policy = `{"Version":"2012-10-17","Statement":[` + statements + `]}` }
}

const replace = "aws ec2 replace-route --route-table-id rtb-1 --destination-cidr-block 0.0.0.0/0 --nat-gateway-id nat-2"

// second adds a NAT gateway that works.
func second(f *facts) {
	n := f.nats.value[0]
	n.ID = "nat-2"
	f.nats.value = append(f.nats.value, n)
}

func runCases(t *testing.T, start func() *facts, cases map[string]checkCase) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.judge(t, start())
		})
	}
}

// Each way to the internet that does not work is a fault, and each that preflight
// cannot follow is a doubt.
func TestWaysToTheInternet(t *testing.T) {
	via := func(gateway string) func(*facts) { return func(f *facts) { nodeSubnet(f).Routes = over(gateway) } }
	nat := func(how func(*awsapi.NAT)) func(*facts) {
		return func(f *facts) {
			n := f.nats.value[0]
			how(&n)
			f.nats.value = []awsapi.NAT{n}
		}
	}
	behind := func(routes []awsapi.Route) func(*facts) {
		return nat(func(n *awsapi.NAT) { s := *n.Subnet; s.Routes = routes; n.Subnet = &s })
	}
	runCases(t, sample, map[string]checkCase{
		"a gone NAT":    {"egress", "FAIL", via("nat-9"), "subnet-1 routes to nat-9, which does not exist in vpc-1", "aws ec2 replace-route --route-table-id rtb-1 --destination-cidr-block 0.0.0.0/0 --nat-gateway-id nat-1"},
		"a failed NAT":  {"egress", "FAIL", func(f *facts) { second(f); f.nats.value[0].State = "failed" }, "subnet-1 routes to nat-1, which is failed", replace},
		"a deleted NAT": {"egress", "FAIL", nat(func(n *awsapi.NAT) { n.State, n.Subnet = "deleted", nil }), "subnet-1 routes to nat-1, which is deleted", "aws ec2 describe-subnets --subnet-ids PUBLIC-SUBNET && aws ec2 create-nat-gateway --subnet-id PUBLIC-SUBNET --allocation-id $(aws ec2 allocate-address"},
		"a pending NAT": {"egress", "WARN", nat(func(n *awsapi.NAT) { n.State = "pending" }), "nat-1, which is pending", "aws ec2 wait nat-gateway-available --nat-gateway-ids nat-1"},
		"a blackhole": {"egress", "FAIL", func(f *facts) {
			second(f)
			f.nats.value = f.nats.value[1:]
			nodeSubnet(f).Routes = []awsapi.Route{{To: "0.0.0.0/0", Via: "nat-1", Blackhole: true}}
		}, "routes to nat-1, which is gone, detached or stopped (blackhole)", replace},
		"a detached IGW": {"egress", "FAIL", func(f *facts) {
			nodeSubnet(f).Routes = []awsapi.Route{{To: "0.0.0.0/0", Via: "igw-1", Blackhole: true}}
		}, "igw-1, which is gone", "aws ec2 attach-internet-gateway --internet-gateway-id igw-1 --vpc-id vpc-1"},
		"a NAT, blackhole": {"egress", "FAIL", behind([]awsapi.Route{{To: "0.0.0.0/0", Via: "igw-1", Blackhole: true}}), "routes to igw-1 instead of an internet gateway", "aws ec2 create-nat-gateway"},
		"a private NAT before a transit gateway": {"egress", "WARN", func(f *facts) {
			behind(over("tgw-1"))(f)
			f.nats.value[0].Private = true
		}, "its subnet subnet-3 routes to tgw-1: preflight cannot see", "aws ec2 describe-nat-gateways --nat-gateway-ids nat-1"},
		"a private NAT": {"egress", "FAIL", func(f *facts) {
			second(f)
			f.nats.value[0].Private = true
		}, "nat-1, a private NAT gateway without a public address", replace},
		"a private NAT with other routes": {"egress", "FAIL", func(f *facts) {
			behind(append(over("igw-1"), awsapi.Route{To: "10.8.0.0/16", Via: "tgw-1"}))(f)
			second(f)
			f.nats.value[0].Private = true
		}, "its subnet subnet-3 routes to igw-1", "aws ec2 describe-route-tables --route-table-ids rtb-public"},
		"a regional NAT":    {"egress", "OK", nat(func(n *awsapi.NAT) { n.Subnet = nil }), "subnet-1 over nat-1", ""},
		"a firewall behind": {"egress", "WARN", behind(over("vpce-1")), "routes to vpce-1: preflight cannot see", "describe-nat-gateways"},
		"a transit gateway": {"egress", "WARN", via("tgw-1"), "subnet-1 routes to tgw-1, a transit gateway: preflight cannot see whether this leads to AWS's services, so check the transit gateway's route table", "aws ec2 describe-transit-gateway-attachments --filters Name=transit-gateway-id,Values=tgw-1"},
		"a VPN":             {"egress", "WARN", via("vgw-1"), "a VPN or Direct Connect", "aws ec2 describe-vpn-connections"},
		"a peer":            {"egress", "WARN", via("pcx-1"), "another VPC's gateways do not serve peers", "aws ec2 describe-vpc-peering-connections"},
		"an appliance":      {"egress", "WARN", via("eni-1"), "has no source/destination check", "aws ec2 describe-network-interfaces"},
		"an instance":       {"egress", "WARN", via("i-9"), "routes to i-9, an instance", "aws ec2 describe-instances --instance-ids i-9"},
		"a load balancer":   {"egress", "WARN", via("vpce-1"), "the endpoint of a Gateway Load Balancer", "aws ec2 describe-vpc-endpoints --vpc-endpoint-ids vpce-1"},
		"an Outpost":        {"egress", "WARN", via("lgw-1"), "the local gateway of an Outpost", "aws ec2 describe-local-gateways"},
		"a carrier":         {"egress", "WARN", via("cagw-1"), "a carrier gateway", "aws ec2 describe-carrier-gateways"},
		"a core network":    {"egress", "WARN", via("arn:aws:networkmanager::1:core-network/c"), "another gateway", "aws ec2 describe-route-tables --route-table-ids rtb-1"},
		"public access is blocked": {"egress", "FAIL", func(f *facts) {
			yes := true
			f.launch.value.PublicAddress, nodeSubnet(f).Blocked, nodeSubnet(f).Routes = &yes, true, over("igw-1")
		}, "subnet-1 routes to igw-1, but VPC Block Public Access stops the traffic", "aws ec2 create-vpc-block-public-access-exclusion --internet-gateway-exclusion-mode allow-egress --subnet-id subnet-1"},
		"the NAT's access is blocked": {"egress", "FAIL", nat(func(n *awsapi.NAT) { s := *n.Subnet; s.Blocked = true; n.Subnet = &s }), "whose subnet subnet-3 cannot use igw-1: VPC Block Public Access stops the traffic", "--subnet-id subnet-3"},
		"a Local Zone":                {"subnet-vpc", "OK", func(f *facts) { nodeSubnet(f).Zone = "eu-west-1-dub-1a" }, "subnet-1 with 250 addresses in the Local Zone eu-west-1-dub-1a", ""},
		"a Wavelength Zone":           {"subnet-vpc", "OK", func(f *facts) { nodeSubnet(f).Zone = "eu-west-1-wl1-lon-wlz-1" }, "in the Wavelength Zone eu-west-1-wl1-lon-wlz-1", ""},
		"an Outpost's subnet":         {"subnet-vpc", "OK", func(f *facts) { nodeSubnet(f).Outpost = "arn:aws:outposts:eu-west-1:123456789012:outpost/op-1" }, "on arn:aws:outposts", ""},
		"an owner":                    {"subnet-vpc", "OK", func(f *facts) { nodeSubnet(f).Owner = "210987654321" }, "of the account 210987654321", ""},
		"nodes in another VPC":        {"endpoint-access", "WARN", func(f *facts) { nodeSubnet(f).VPC = "vpc-2" }, "only private access is on, for addresses in vpc-1: nodes in vpc-2 need a route there", "aws ec2 describe-subnets"},
		"nodes in another VPC without a way": {"endpoint-access", "FAIL", func(f *facts) {
			nodeSubnet(f).VPC, nodeSubnet(f).Routes, f.cluster.value.PublicAccess = "vpc-2", nil, true
		}, "private access serves only vpc-1, and subnet-1 has no route to the internet", "endpointPrivateAccess=true"},
		"two halves": {"egress", "OK", func(f *facts) {
			nodeSubnet(f).Routes = []awsapi.Route{{To: "0.0.0.0/1", Via: "nat-1"}, {To: "128.0.0.0/1", Via: "nat-1"}, {To: "0.0.0.0/0", Via: "nat-9"}}
		}, "subnet-1 over nat-1", ""},
		"one half lost": {"egress", "FAIL", func(f *facts) {
			nodeSubnet(f).Routes = []awsapi.Route{{To: "0.0.0.0/1", Via: "nat-1"}, {To: "128.0.0.0/1", Via: "nat-1", Blackhole: true}}
		}, "blackhole", "--destination-cidr-block 128.0.0.0/1 --nat-gateway-id nat-1"},
		"routes to some": {"egress", "WARN", func(f *facts) {
			nodeSubnet(f).Routes = []awsapi.Route{{To: "52.0.0.0/8", Via: "nat-1"}, {To: "pl-1", Via: "tgw-1"}}
		}, "only routes to some public networks", "aws ec2 describe-route-tables"},
		"private routes": {"egress", "FAIL", func(f *facts) {
			nodeSubnet(f).Routes = []awsapi.Route{{To: "10.0.0.0/8", Via: "tgw-1"}, {To: "pl-1", Via: "vpce-1"}}
		}, "has no route to the internet", "create-vpc-endpoint"},
		"a shared subnet": {"egress", "WARN", func(f *facts) {
			nodeSubnet(f).Owner, nodeSubnet(f).Table, nodeSubnet(f).Routes = "210987654321", "", nil
		}, "the account 210987654321 owns the subnet", "aws ec2 describe-subnets --subnet-ids subnet-1"},
		"a shared NAT": {"egress", "WARN", func(f *facts) { nodeSubnet(f).Owner, f.nats.value = "210987654321", nil }, "nat-1, which AWS does not show to you", "aws ec2 describe-subnets"},
		"NAT64": {"egress", "OK", func(f *facts) {
			s := nodeSubnet(f)
			s.CIDR, s.DNS64, s.Routes = "", true, []awsapi.Route{{To: "64:ff9b::/96", Via: "nat-1"}, {To: "::/0", Via: "eigw-1"}}
		}, "subnet-1 over nat-1", ""},
		"NAT64, blackhole": {"egress", "FAIL", func(f *facts) {
			s := nodeSubnet(f)
			s.CIDR, s.DNS64, s.Routes = "", true, []awsapi.Route{{To: "64:ff9b::/96", Via: "nat-9", Blackhole: true}}
		}, "blackhole", "--destination-ipv6-cidr-block 64:ff9b::/96 --nat-gateway-id nat-1"},
		"a zone of a shared network": {"private-zones", "WARN", func(f *facts) {
			nodeSubnet(f).Owner, f.hiding.err = "210987654321", &awsapi.DeniedError{Permission: "route53:ListHostedZonesByVPC"}
		}, "another account owns vpc-1", "aws route53 list-hosted-zones-by-vpc"},
		"a zone of another account": {"private-zones", "WARN", func(f *facts) {
			f.hiding.value = []hidingZone{{zone: awsapi.Zone{ID: "Z1", Name: "amazonaws.com", Account: "210987654321"}, unread: []string{"ec2.eu-west-1.amazonaws.com"}}}
		}, "its owner must check that the zone has records", "aws route53 list-hosted-zones-by-vpc"},
		"a service's zone of another account": {"private-zones", "OK", func(f *facts) {
			f.hiding.value = []hidingZone{{zone: awsapi.Zone{ID: "Z1", Name: "ec2.eu-west-1.amazonaws.com", Account: "210987654321"}, unread: []string{"ec2.eu-west-1.amazonaws.com"}}}
		}, "ec2.eu-west-1.amazonaws.com", ""},
		"IPv6 alone": {"egress", "FAIL", func(f *facts) {
			s := nodeSubnet(f)
			s.CIDR, s.Routes = "", []awsapi.Route{{To: "::/0", Via: "eigw-1"}}
		}, "subnet-1 has no IPv4 network, and no NAT64 with DNS64", "create-vpc-endpoint"},
		"a closed group": {"egress", "FAIL", func(f *facts) {
			clusterGroup(f, func(g *awsapi.SecurityGroup) {
				g.Egress = []awsapi.Rule{{Protocol: "-1", Groups: []string{"sg-cluster"}}}
			})
		}, "sg-cluster of the node let nothing out to port 443 of AWS's services", "--protocol tcp --port 443 --cidr 0.0.0.0/0"},
		"a narrow group": {"egress", "WARN", func(f *facts) {
			clusterGroup(f, func(g *awsapi.SecurityGroup) {
				g.Egress = []awsapi.Rule{{Protocol: "tcp", From: 443, To: 443, CIDRs: []string{"52.0.0.0/8"}}}
			})
		}, "of the whole internet", "authorize-security-group-egress"},
		"AWS's name server": {"vpc-dns", "OK", func(f *facts) {
			f.vpc.value.NameServers = []string{"10.0.0.2", "169.254.169.253"}
		}, "host names are on", ""},
		"a name server of the network": {"vpc-dns", "OK", func(f *facts) {
			f.vpc.value.NameServers = []string{"10.0.0.53"}
			f.cluster.value.PrivateAccess, f.cluster.value.PublicAccess = false, true
		}, "support and host names are on", ""},
		"a name server of the network, with an endpoint": {"vpc-dns", "WARN", func(f *facts) {
			f.vpc.value.NameServers = []string{"10.0.0.53"}
			f.cluster.value.PrivateAccess, f.cluster.value.PublicAccess = false, true
			f.vpc.value.Endpoints = endpoints(0, "available", true)
		}, "set the name server 10.0.0.53", "describe-dhcp-options"},
		"the NAT is listed": {"endpoint-access", "OK", func(f *facts) {
			f.cluster.value.PrivateAccess, f.cluster.value.PublicAccess, f.cluster.value.PublicCIDRs = false, true, []string{"192.0.2.0/24", "198.51.100.1/32"}
		}, "public access is for 192.0.2.0/24, 198.51.100.1/32 only", ""},
		"one of two addresses is listed": {"endpoint-access", "WARN", func(f *facts) {
			f.cluster.value.PrivateAccess, f.cluster.value.PublicAccess, f.cluster.value.PublicCIDRs = false, true, []string{"198.51.100.1/32"}
			f.nats.value[0].Addresses = []string{"198.51.100.1", "198.51.100.2"}
		}, "nodes in subnet-1 also come from 198.51.100.2", "endpointPrivateAccess=true"},
		"an unknown address": {"endpoint-access", "WARN", func(f *facts) {
			via("tgw-1")(f)
			f.cluster.value.PrivateAccess, f.cluster.value.PublicAccess, f.cluster.value.PublicCIDRs = false, true, []string{"198.51.100.1/32"}
		}, "the public address of the nodes' gateway must be in these networks", "endpointPrivateAccess=true"},
	})
}

// IPv6 clusters need addresses, routes and rules of their family.
func TestIPv6Clusters(t *testing.T) {
	runCases(t, sample6, map[string]checkCase{
		"right":      {"subnet-ipv6", "OK", func(*facts) {}, "subnet-1 has 2001:db8:0:1::/64", ""},
		"no range":   {"subnet-ipv6", "FAIL", func(f *facts) { nodeSubnet(f).IPv6 = "" }, "the cluster uses IPv6, but subnet-1 has no IPv6 network", "aws ec2 associate-subnet-cidr-block --ipv6-cidr-block IPV6-NETWORK --subnet-id subnet-1"},
		"no address": {"subnet-ipv6", "FAIL", func(f *facts) { f.launch.value.IPv6Address = new(bool) }, "the instance i-1 has no IPv6 address", "aws ec2 assign-ipv6-addresses"},
		"none for images": {"subnet-ipv6", "FAIL", func(f *facts) {
			f.target.Instance, f.launch.value.IPv6Address, nodeSubnet(f).IPv6Addresses = "", nil, false
		}, "instances in subnet-1 get no IPv6 address", "aws ec2 modify-subnet-attribute --assign-ipv6-address-on-creation --subnet-id subnet-1"},
		"no route":       {"subnet-ipv6", "WARN", func(f *facts) { nodeSubnet(f).Routes = over("nat-1") }, "subnet-1 has no IPv6 route to the internet (::/0)", "--destination-ipv6-cidr-block ::/0 --egress-only-internet-gateway-id $(aws ec2 create-egress-only-internet-gateway --vpc-id vpc-1"},
		"a gone gateway": {"subnet-ipv6", "WARN", func(f *facts) { nodeSubnet(f).Routes[1].Blackhole = true }, "the IPv6 route of subnet-1 to eigw-1 is a blackhole", "aws ec2 replace-route"},
		"closed":         {"subnet-ipv6", "OK", func(f *facts) { closed(f, endpoints(0, "available", true)) }, "subnet-1 has", ""},
		"rules for IPv4": {"security-group-nodes", "FAIL", func(f *facts) {
			clusterGroup(f, func(g *awsapi.SecurityGroup) {
				g.Ingress = []awsapi.Rule{{Protocol: "-1", CIDRs: []string{"10.0.0.0/8"}}}
			})
		}, "let nothing in to port 53", "authorize-security-group-ingress"},
		"rules for IPv6": {"security-group-nodes", "OK", func(f *facts) {
			clusterGroup(f, func(g *awsapi.SecurityGroup) {
				g.Ingress = []awsapi.Rule{{Protocol: "-1", CIDRs: []string{"2001:db8::/56"}}}
			})
		}, "sg-cluster", ""},
		"an ACL for IPv4": {"network-acl", "FAIL", func(f *facts) { *nodeACL(f) = openACL("acl-1", "subnet-1") }, "out to 2001:db8:0:2::/64", "--ipv6-cidr-block 2001:db8:0:2::/64"},
		"services":        {"user-data", "FAIL", func(f *facts) { f.cluster.value.ServiceCIDR = "fd00:1::/108" }, "the service network in the user data is fd00::/108, but should be fd00:1::/108", "eksnode userdata"},
	})
}

// Other networks must not use addresses of the service network.
func TestServiceNetworks(t *testing.T) {
	runCases(t, sample, map[string]checkCase{
		"no overlap": {"service-cidr", "OK", func(f *facts) { f.vpc.value.CIDRs = append(f.vpc.value.CIDRs, "100.64.0.0/16") }, "services 10.100.0.0/16", ""},
		"a block":    {"service-cidr", "FAIL", func(f *facts) { f.vpc.value.CIDRs = []string{"10.0.0.0/16", "10.96.0.0/12"} }, "overlaps 10.96.0.0/12 of vpc-1: EKS cannot change the service network", "describe-vpcs"},
		"a peer": {"service-cidr", "WARN", func(f *facts) {
			nodeSubnet(f).Routes = append(over("nat-1"), awsapi.Route{To: "10.100.8.0/24", Via: "pcx-1"})
		}, "the service network 10.100.0.0/16 contains 10.100.8.0/24, to which subnet-1 routes over pcx-1", "describe-route-tables --route-table-ids rtb-1"},
		"a wide route": {"service-cidr", "OK", func(f *facts) {
			nodeSubnet(f).Routes = append(over("nat-1"), awsapi.Route{To: "10.0.0.0/8", Via: "tgw-1"})
		}, "services", ""},
		"Docker's service range": {"service-cidr", "WARN", func(f *facts) { f.cluster.value.ServiceCIDR = "172.16.0.0/15" }, "172.16.0.0/15 overlaps 172.17.0.0/16", "describe-vpcs"},
		"another DNS":            {"service-cidr", "FAIL", func(f *facts) { f.userData.value.Cluster.DNSAddresses = []string{"172.20.0.10"} }, "the cluster DNS in the user data is 172.20.0.10, outside the service network 10.100.0.0/16", "eksnode userdata render"},
		"the right DNS": {"service-cidr", "OK", func(f *facts) {
			f.userData.value.Cluster.DNSAddresses = []string{"10.100.0.10", "169.254.20.10", "10.0.0.53"}
		}, "services", ""},
	})
}

// Endpoints that exist do not always serve.
func TestEndpointsThatDoNotServe(t *testing.T) {
	ep := func(service string, how func(*awsapi.Endpoint)) func(*facts) {
		return func(f *facts) { change(f, service, how) }
	}
	groups := func(in []awsapi.Rule, out []awsapi.Rule) func(*facts) {
		return func(f *facts) {
			closed(f, endpoints(0, "available", true))
			g := nodeGroup()
			g.ID, g.Ingress = "sg-ep", in
			f.endpointGroups = known([]awsapi.SecurityGroup{g})
			for i := range f.vpc.value.Endpoints {
				if e := &f.vpc.value.Endpoints[i]; e.Interface {
					e.Groups = []string{"sg-ep"}
				}
			}
			if out != nil {
				clusterGroup(f, func(g *awsapi.SecurityGroup) { g.Egress = out })
			}
		}
	}
	https := func(r awsapi.Rule) []awsapi.Rule {
		r.Protocol, r.From, r.To = "tcp", 443, 443
		return []awsapi.Rule{r}
	}
	runCases(t, sample, map[string]checkCase{
		"right": {"egress", "OK", ep("s3", func(*awsapi.Endpoint) {}), "subnet-1 over endpoints", ""},
		"a public subnet without public addresses": {"egress", "OK", func(f *facts) {
			closed(f, endpoints(0, "available", true))
			nodeSubnet(f).Routes = over("igw-1")
		}, "over endpoints", ""},
		"without EKS":    {"egress", "OK", func(f *facts) { closed(f, endpoints(0, "available", true)[:5]) }, "subnet-1 over endpoints", ""},
		"EKS for images": {"egress", "WARN", func(f *facts) { closed(f, endpoints(0, "available", true)[:5]); f.launch.absent = true }, "com.amazonaws.eu-west-1.eks, which nodes need unless the user data has endpoint and certificate authority", "--service-name com.amazonaws.eu-west-1.eks"},
		"EKS for bootstrap.sh": {"egress", "FAIL", func(f *facts) {
			closed(f, endpoints(0, "available", true)[:5])
			say(f, "#!/bin/bash\n/etc/eks/bootstrap.sh my-cluster\n")
		}, "the VPC has no endpoint for com.amazonaws.eu-west-1.eks", "--service-name com.amazonaws.eu-west-1.eks"},
		"EKS Auth": {"egress", "WARN", func(f *facts) {
			closed(f, endpoints(0, "available", true))
			f.addons.value = append(f.addons.value, awsapi.Addon{Name: "eks-pod-identity-agent"})
		}, "com.amazonaws.eu-west-1.eks-auth, which nodes need for pods with EKS Pod Identity", "--service-name com.amazonaws.eu-west-1.eks-auth"},
		"another port":        {"egress", "FAIL", groups([]awsapi.Rule{{Protocol: "tcp", From: 80, To: 80, CIDRs: []string{"0.0.0.0/0"}}}, nil), "let nothing in to port 443", "--port 443"},
		"another network":     {"egress", "FAIL", groups(https(awsapi.Rule{CIDRs: []string{"10.0.2.0/24"}}), nil), "let nothing in to port 443", "--port 443"},
		"IPv6 only":           {"egress", "FAIL", groups(https(awsapi.Rule{CIDRs: []string{"::/0"}}), nil), "let nothing in to port 443", "--port 443"},
		"ICMP only":           {"egress", "FAIL", groups([]awsapi.Rule{{Protocol: "icmp", From: -1, To: -1, CIDRs: []string{"0.0.0.0/0"}}}, nil), "let nothing in to port 443", "--port 443"},
		"another group":       {"egress", "FAIL", groups(https(awsapi.Rule{Groups: []string{"sg-other"}}), nil), "let nothing in to port 443", "--port 443"},
		"a prefix list":       {"egress", "WARN", groups(https(awsapi.Rule{Lists: []string{"pl-1"}}), nil), "may let nothing in to port 443", "--port 443"},
		"the node's network":  {"egress", "OK", groups(https(awsapi.Rule{CIDRs: []string{"10.0.0.0/16"}}), nil), "over endpoints", ""},
		"the node's group":    {"egress", "OK", groups(https(awsapi.Rule{Groups: []string{"sg-cluster"}}), nil), "over endpoints", ""},
		"the node's way out":  {"egress", "FAIL", groups(https(awsapi.Rule{CIDRs: []string{"10.0.0.0/16"}}), https(awsapi.Rule{Groups: []string{"sg-cluster"}})), "sg-cluster of the node let nothing out to port 443 of the endpoint vpce-0", "aws ec2 authorize-security-group-egress --group-id sg-cluster --protocol tcp --port 443 --source-group sg-ep"},
		"the node's networks": {"egress", "OK", groups(https(awsapi.Rule{CIDRs: []string{"10.0.0.0/16"}}), https(awsapi.Rule{CIDRs: []string{"10.0.1.0/24"}, Lists: []string{"pl-1"}})), "over endpoints", ""},
		"no way out to S3": {"egress", "FAIL", func(f *facts) {
			groups(https(awsapi.Rule{CIDRs: []string{"10.0.0.0/16"}}), https(awsapi.Rule{CIDRs: []string{"10.0.0.0/16"}}))(f)
			nodeSubnet(f).Routes = []awsapi.Route{{To: "pl-1", Via: "vpce-3"}}
		}, "sg-cluster of the node let nothing out to port 443 of AWS's services, such as the endpoint vpce-3", `[{"IpProtocol":"tcp","FromPort":443,"ToPort":443,"PrefixListIds":[{"PrefixListId":"pl-1"}]}]`},
		"a shut group with NAT": {"egress", "FAIL", func(f *facts) {
			groups(nil, nil)(f)
			nodeSubnet(f).Routes = over("nat-1")
		}, "sg-ep of the endpoint vpce-0", "authorize-security-group-ingress"},
		"images, a shut group": {"egress", "WARN", func(f *facts) {
			groups(https(awsapi.Rule{Groups: []string{"sg-other"}}), nil)(f)
			f.launch.absent, f.nodeGroups = true, fact[[]awsapi.SecurityGroup]{absent: true}
		}, "sg-ep of the endpoint vpce-0 for com.amazonaws.eu-west-1.ec2 may let nothing in to port 443 from subnet-1", "--source-group sg-cluster"},
		"no name with NAT": {"egress", "OK", func(f *facts) {
			change(f, "ec2", func(e *awsapi.Endpoint) { e.PrivateDNS = false })
			nodeSubnet(f).Routes = over("nat-1")
		}, "subnet-1 over nat-1", ""},
		"pending with NAT": {"egress", "OK", func(f *facts) {
			change(f, "ec2", func(e *awsapi.Endpoint) { e.State = "pending" })
			nodeSubnet(f).Routes = over("nat-1")
		}, "subnet-1 over nat-1", ""},
		"rejected":           {"egress", "FAIL", ep("ecr.dkr", func(e *awsapi.Endpoint) { e.State = "rejected" }), "the endpoint vpce-2 for com.amazonaws.eu-west-1.ecr.dkr is rejected", "describe-vpc-endpoints"},
		"the SDK's spelling": {"egress", "OK", ep("ecr.dkr", func(e *awsapi.Endpoint) { e.State = "Available" }), "over endpoints", ""},
		"another zone":       {"egress", "OK", ep("ecr.dkr", func(e *awsapi.Endpoint) { e.Subnets = []string{"subnet-2"} }), "over endpoints", ""},
		"no host names":      {"egress", "FAIL", func(f *facts) { closed(f, endpoints(0, "available", true)); f.vpc.value.DNSHostname = false }, "because DNS support or DNS host names are off in vpc-1", "--enable-dns-hostnames"},
		"S3 as an interface": {"egress", "OK", ep("s3", func(e *awsapi.Endpoint) {
			e.Interface, e.PrivateDNS, e.Groups, e.Tables = true, true, []string{"sg-cluster"}, nil
		}), "over endpoints", ""},
		"S3 without a name": {"egress", "FAIL", ep("s3", func(e *awsapi.Endpoint) { e.Interface, e.Groups, e.Tables = true, []string{"sg-cluster"}, nil }), "the name of com.amazonaws.eu-west-1.s3 does not resolve", "--private-dns-enabled"},
		"S3 with a small policy": {"egress", "FAIL", ep("s3", policy(`{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::mine","arn:aws:s3:::mine/*"]}`)), "the policy of the endpoint vpce-3 for com.amazonaws.eu-west-1.s3 does not allow s3:GetObject of arn:aws:s3:::prod-eu-west-1-starport-layer-bucket/layer",
			`aws ec2 modify-vpc-endpoint --vpc-endpoint-id vpce-3 --policy-document '{"Statement":[{"Action":"s3:*","Effect":"Allow","Principal":"*","Resource":["arn:aws:s3:::mine","arn:aws:s3:::mine/*"]},{"Action":"s3:GetObject","Effect":"Allow","Principal":"*","Resource":"arn:aws:s3:::prod-eu-west-1-starport-layer-bucket/*"}],"Version":"2012-10-17"}'`},
		"S3 with ECR's bucket":    {"egress", "OK", ep("s3", policy(`{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::prod-eu-west-1-starport-layer-bucket/*"}`)), "over endpoints", ""},
		"S3 for an organization":  {"egress", "WARN", ep("s3", policy(`{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*","Condition":{"StringEquals":{"aws:PrincipalOrgID":"o-1"}}}`)), "under conditions", "describe-vpc-endpoints"},
		"S3 for a role":           {"egress", "WARN", ep("s3", policy(`{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::123456789012:role/node"},"Action":"*","Resource":"*"}`)), "only for some callers", "describe-vpc-endpoints"},
		"a denial":                {"egress", "FAIL", ep("ec2", policy(`{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"*","Resource":"*"},{"Effect":"Deny","Principal":"*","Action":"EC2:describe*","Resource":"*"}`)), "denies ec2:DescribeInstances of *: remove the statement that denies it", "describe-vpc-endpoints"},
		"a conditional denial":    {"egress", "WARN", ep("ec2", policy(`{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"},{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*","Condition":{"StringNotEquals":{"aws:PrincipalAccount":"1"}}}`)), "under conditions", "describe-vpc-endpoints"},
		"another denial":          {"egress", "OK", ep("ec2", policy(`{"Effect":"Allow","Principal":"*","NotAction":"iam:*","Resource":"*"},{"Effect":"Deny","Principal":"*","Action":"ec2:TerminateInstances","Resource":"*"}`)), "over endpoints", ""},
		"no statement":            {"egress", "FAIL", ep("ecr.api", policy(``)), "does not allow ecr:GetAuthorizationToken of *", `{"Action":"ecr:GetAuthorizationToken","Effect":"Allow","Principal":"*","Resource":"*"}`},
		"ECR's token by resource": {"egress", "FAIL", ep("ecr.api", policy(`{"Effect":"Allow","Principal":"*","Action":"ecr:*","Resource":"arn:aws:ecr:eu-west-1:123456789012:repository/*"}`)), "does not allow ecr:GetAuthorizationToken of *", "modify-vpc-endpoint"},
		"another registry":        {"egress", "WARN", ep("ecr.dkr", policy(`{"Effect":"Allow","Principal":"*","Action":"ecr:*","Resource":"arn:aws:ecr:eu-west-1:123456789012:repository/*"}`)), "only for some callers or resources", "describe-vpc-endpoints"},
		"a broken policy":         {"egress", "UNKNOWN", ep("ec2", func(e *awsapi.Endpoint) { e.Policy = "{" }), "reading the policy of the endpoint vpce-0", "eksnode preflight"},
		"sessions": {"egress-ssm", "OK", func(f *facts) {
			list := endpoints(0, "available", true)
			for _, name := range []string{"ssm", "ssmmessages"} {
				e := list[0]
				e.Service = "com.amazonaws.eu-west-1." + name
				list = append(list, e)
			}
			closed(f, list)
		}, "from subnet-1", ""},
	})
}

// sample6 is the sample as an IPv6 cluster.
func sample6() *facts {
	f := sample()
	yes := true
	f.cluster.value.IPFamily, f.cluster.value.ServiceCIDR = ipv6, "fd00::/108"
	f.userData.value.Cluster.CIDR = "fd00::/108"
	f.vpc.value.IPv6, f.launch.value.IPv6Address = []string{"2001:db8::/56"}, &yes
	for i := range f.planeSubnets.value {
		s := &f.planeSubnets.value[i]
		s.IPv6, s.IPv6Addresses = []string{"2001:db8:0:1::/64", "2001:db8:0:2::/64"}[i], true
		s.Routes = append(over("nat-1"), awsapi.Route{To: "::/0", Via: "eigw-1"})
	}
	f.subnets.value = []awsapi.Subnet{f.planeSubnets.value[0]}
	clusterGroup(f, func(g *awsapi.SecurityGroup) {
		g.Egress = []awsapi.Rule{{Protocol: "-1", CIDRs: []string{"0.0.0.0/0", "::/0"}}}
	})
	for i := range f.acls.value {
		for _, e := range f.acls.value[i].Entries[:2] {
			e.CIDR, e.Number = "::/0", 101
			f.acls.value[i].Entries = append(f.acls.value[i].Entries, e)
		}
	}
	return f
}
