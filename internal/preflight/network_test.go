package preflight

import (
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// fullAccess is the policy that AWS gives endpoints.
const fullAccess = `{"Statement":[{"Action":"*","Effect":"Allow","Principal":"*","Resource":"*"}]}`

// closed removes the nodes' route to the internet and gives the VPC endpoints.
func closed(f *facts) {
	for i := range f.subnets.value {
		f.subnets.value[i].Routes = nil
	}
	f.vpc.value.Endpoints = endpoints()
	f.endpointGroups = known(f.nodeGroups.value[:1])
}

// endpointGroup closes the network and gives its endpoints a security group of their own.
func endpointGroup(f *facts) {
	closed(f)
	g := nodeGroup()
	g.ID = "sg-ep"
	f.endpointGroups = known([]awsapi.SecurityGroup{g})
	for i := range f.vpc.value.Endpoints {
		if e := &f.vpc.value.Endpoints[i]; e.Interface {
			e.Groups = []string{"sg-ep"}
		}
	}
}

// second adds a NAT gateway that works.
func second(f *facts) {
	n := f.nats.value[0]
	n.ID = "nat-2"
	f.nats.value = append(f.nats.value, n)
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
	for _, groups := range [][]awsapi.SecurityGroup{f.nodeGroups.value, f.planeGroups.value[1:]} {
		groups[0].Egress = []awsapi.Rule{{Protocol: "-1", CIDRs: []string{"0.0.0.0/0", "::/0"}}}
	}
	for i := range f.acls.value {
		for _, e := range f.acls.value[i].Entries[:2] {
			e.CIDR, e.Number = "::/0", 101
			f.acls.value[i].Entries = append(f.acls.value[i].Entries, e)
		}
	}
	return f
}
