package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

// least is how many free addresses a subnet should have: a node and its pods take
// several dozen.
const least = 16

func checkSubnets(f *facts) *result {
	var seen, few []string
	for _, s := range f.subnets.value {
		if s.VPC != f.cluster.value.VPC {
			return bad("aws ec2 describe-subnets --filters Name=vpc-id,Values="+f.cluster.value.VPC,
				"%s is in %s, but the cluster is in %s", s.ID, s.VPC, f.cluster.value.VPC)
		}
		seen = append(seen, fmt.Sprintf("%s with %d addresses%s", s.ID, s.Free, f.place(s)))
		if s.Free < least {
			few = append(few, seen[len(seen)-1])
		}
	}
	if len(few) > 0 {
		return maybe("aws ec2 create-subnet --vpc-id "+f.cluster.value.VPC+" --cidr-block CIDR", "%s",
			strings.Join(few, ", "))
	}
	return good("%s", strings.Join(seen, ", "))
}

// place says where a subnet is, unless your account has it in an availability zone.
// Nodes may be in zones in which EKS has no control planes.
func (f *facts) place(s awsapi.Subnet) string {
	said := ""
	switch after, found := strings.CutPrefix(s.Zone, f.region()); {
	case s.Outpost != "":
		said = " on " + s.Outpost
	case found && strings.HasPrefix(after, "-wl"):
		said = " in the Wavelength Zone " + s.Zone
	case found && strings.HasPrefix(after, "-"):
		said = " in the Local Zone " + s.Zone
	}
	if f.foreign(s) {
		said += " of the account " + s.Owner
	}
	return said
}

func checkSubnetTag(f *facts) *result {
	if n, ok := version.Minor(f.cluster.value.Version); !ok || n > 18 {
		return good("not needed since 1.19")
	}
	key := "kubernetes.io/cluster/" + f.target.Cluster
	for _, s := range f.subnets.value {
		if v := s.Tags[key]; v != "shared" && v != "owned" {
			return bad(fmt.Sprintf("aws ec2 create-tags --resources %s --tags Key=%s,Value=shared", s.ID, key),
				"%s has no tag %s=shared", s.ID, key)
		}
	}
	return good("%s=shared", key)
}

// assigned says whether an instance in a subnet gets a public address. The setting
// of the instance wins over that of the subnet.
func (f *facts) assigned(s awsapi.Subnet) bool {
	if said := f.launch.value.PublicAddress; said != nil {
		return *said
	}
	return s.PublicAddresses
}

// publicAddress is the command that gives instances of a subnet a public address.
func (f *facts) publicAddress(s awsapi.Subnet) string {
	switch {
	case f.target.Instance != "":
		return "aws ec2 associate-address --instance-id " + f.target.Instance +
			" --allocation-id $(aws ec2 allocate-address --query AllocationId --output text)"
	case f.launch.value.PublicAddress != nil:
		var all []map[string]any
		for _, one := range f.launch.value.Interfaces {
			one = maps.Clone(one)
			if index, said := one["DeviceIndex"]; !said || index == 0.0 {
				one["AssociatePublicIpAddress"] = true
			}
			all = append(all, one)
		}
		return f.newVersion(map[string]any{"NetworkInterfaces": all})
	default:
		return "aws ec2 modify-subnet-attribute --map-public-ip-on-launch --subnet-id " + s.ID
	}
}

func checkDNS(f *facts) *result {
	v := f.vpc.value
	switch {
	case v.NoDHCP:
		return bad(f.dhcpOptions(), "%s has no DHCP options, so instances get no name server", v.ID)
	case !v.DNSSupport:
		return bad("aws ec2 modify-vpc-attribute --enable-dns-support --vpc-id "+v.ID, "DNS support is off in %s", v.ID)
	case !v.DNSHostname:
		return bad("aws ec2 modify-vpc-attribute --enable-dns-hostnames --vpc-id "+v.ID, "DNS host names are off in %s",
			v.ID)
	}
	// AWS's resolver has these addresses in every VPC, in addition to one in each network
	// (https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html).
	resolvers := append(v.Resolvers(), "AmazonProvidedDNS", "169.254.169.253", "fd00:ec2::253")
	named := func(e awsapi.Endpoint) bool { return e.Interface && e.PrivateDNS }
	// Without such names, nodes need no name that only AWS's own name server answers.
	onlyPublic := f.cluster.err == nil && !f.cluster.value.PrivateAccess && !slices.ContainsFunc(v.Endpoints, named)
	for _, server := range v.NameServers {
		if !onlyPublic && !slices.Contains(resolvers, server) {
			return maybe(f.seeDHCP(), "the DHCP options of %s set the name server %s: this server must forward the "+
				"names of private endpoints to AWS's own name server", v.ID, server)
		}
	}
	return good("support and host names are on in %s", v.ID)
}

// seeDHCP is the command that shows the VPC's DHCP options. Replacing them would
// change all machines in the VPC and lose the other settings.
func (f *facts) seeDHCP() string {
	return "aws ec2 describe-dhcp-options --dhcp-options-ids " + f.vpc.value.DHCP
}

// dhcpOptions is the command that gives a VPC without options those of a new VPC.
// The ID "default" would leave the VPC without options.
func (f *facts) dhcpOptions() string {
	region, domain := f.region(), "ec2.internal"
	if region != "us-east-1" {
		domain = region + ".compute.internal"
	}
	return fmt.Sprintf("aws ec2 associate-dhcp-options --vpc-id %s --dhcp-options-id $(aws ec2 create-dhcp-options "+
		"--dhcp-configurations "+
		"Key=domain-name-servers,Values=AmazonProvidedDNS Key=domain-name,Values=%s --query DhcpOptions.DhcpOptionsId "+
		"--output text)", f.vpc.value.ID, domain)
}

func checkDomain(f *facts) *result {
	v := f.vpc.value
	for _, d := range v.Domains {
		if d != "ec2.internal" && !strings.HasSuffix(d, ".compute.internal") &&
			!strings.HasSuffix(d, ".compute.amazonaws.com.cn") {
			return maybe(f.seeDHCP(), "the DHCP options of %s set the domain %s: the cluster refuses nodes that take "+
				"their name from this domain, but other machines may need the domain", v.ID, d)
		}
	}
	return good("%s", strings.Join(append([]string{"domain"}, v.Domains...), " "))
}

// The ports from which Linux connects: net.ipv4.ip_local_port_range.
const firstEphemeral, lastEphemeral = 32768, 60999

// anywhere is every address of IPv4, and anywhere6 of IPv6.
const anywhere, anywhere6 = "0.0.0.0/0", "::/0"

// crossing is traffic that a subnet's network ACL must let pass.
type crossing struct {
	subnet   awsapi.Subnet
	egress   bool
	from, to int
	network  string
	what     string
}

// crossings are the traffic between nodes and control plane. ACLs are stateless, so
// replies need rules too. ACLs do not filter traffic within a subnet.
func (f *facts) crossings() []crossing {
	var list []crossing
	for _, n := range f.subnets.value {
		for _, p := range f.planeSubnets.value {
			if n.ID == p.ID || f.cidr(n) == "" || f.cidr(p) == "" { // IPv6-only subnets have no CIDR
				continue
			}
			for _, port := range []struct {
				client, server awsapi.Subnet
				number         int
				what           string
			}{{n, p, 443, "the API server"}, {p, n, 10250, "the kubelet"}} {
				list = append(list,
					crossing{port.client, true, port.number, port.number, f.cidr(port.server), port.what},
					crossing{port.server, false, port.number, port.number, f.cidr(port.client), port.what},
					crossing{port.server, true, firstEphemeral, lastEphemeral, f.cidr(port.client), "the replies of " +
						port.what},
					crossing{port.client, false, firstEphemeral, lastEphemeral, f.cidr(port.server), "the replies of " +
						port.what},
				)
			}
		}
	}
	return list
}

func checkACL(f *facts) *result {
	for _, s := range slices.Concat(f.subnets.value, f.planeSubnets.value) {
		if _, there := f.aclOf(s); !there { // each subnet has one
			return f.unseen(fmt.Errorf("describing the network ACLs: AWS returned none for %s", s.ID))
		}
	}
	for _, c := range f.crossings() {
		if acl, let := f.passes(c); !let {
			return bad(c.remedy(acl), "%s", c.blocked(acl))
		}
	}
	// Narrower rules may allow the destinations outside the VPC; preflight cannot
	// judge those.
	for _, s := range f.subnets.value {
		if len(internet4(s)) == 0 {
			continue
		}
		for _, c := range []crossing{
			{s, true, 443, 443, anywhere, "AWS's services"},
			{s, false, firstEphemeral, lastEphemeral, anywhere, "the replies of AWS's services"},
		} {
			if acl, let := f.passes(c); !let {
				return maybe(c.remedy(acl), "%s", c.blocked(acl))
			}
		}
	}
	seen := show.Each(f.acls.value, func(acl awsapi.ACL) string { return acl.ID })
	return good("let through by %v", seen)
}

func (f *facts) aclOf(s awsapi.Subnet) (awsapi.ACL, bool) {
	i := slices.IndexFunc(f.acls.value, func(acl awsapi.ACL) bool { return slices.Contains(acl.Subnets, s.ID) })
	if i < 0 {
		return awsapi.ACL{}, false
	}
	return f.acls.value[i], true
}

func (f *facts) passes(c crossing) (awsapi.ACL, bool) {
	acl, _ := f.aclOf(c.subnet)
	return acl, acl.Lets(c.egress, c.from, c.to, c.network)
}

func (c crossing) blocked(acl awsapi.ACL) string {
	ports := fmt.Sprintf("port %d", c.from)
	if c.to != c.from {
		ports = fmt.Sprintf("ports %d to %d", c.from, c.to)
	}
	way := "in from"
	if c.egress {
		way = "out to"
	}
	return fmt.Sprintf("%s of %s does not let %s pass: TCP to %s, %s %s", acl.ID, c.subnet.ID, c.what, ports, way,
		c.network)
}

// remedy is the command for an entry before all others of its direction.
func (c crossing) remedy(acl awsapi.ACL) string {
	number := "NUMBER"
	for _, e := range acl.Entries {
		if e.Egress == c.egress && e.Number > 1 {
			number = fmt.Sprint(min(e.Number-1, 100))
			break
		}
	}
	direction := "--ingress"
	if c.egress {
		direction = "--egress"
	}
	return fmt.Sprintf("aws ec2 create-network-acl-entry --network-acl-id %s %s --rule-number %s --protocol tcp "+
		"--port-range From=%d,To=%d --%s %s --rule-action allow",
		acl.ID, direction, number, c.from, c.to, cidrBlock(c.network), c.network)
}

// cidrBlock is the end of the options for networks of a family.
func cidrBlock(network string) string {
	if strings.Contains(network, ":") {
		return "ipv6-cidr-block"
	}
	return "cidr-block"
}

// ipv6 is the cluster's address family with IPv6 addresses for pods and services.
const ipv6 = "ipv6"

func checkIPv6(f *facts) *result {
	if f.cluster.err == nil && f.cluster.value.IPFamily != ipv6 {
		return good("not needed: the cluster uses IPv4")
	}
	if r := f.unseen(f.cluster.err, f.subnets.err, f.vpc.err, f.nats.err); r != nil {
		return r
	}
	var seen []string
	var doubt *result
	for _, s := range f.subnets.value {
		if r := f.addresses6(s); r != nil {
			return r
		}
		if r := f.route6(s); r != nil {
			doubt = r
		}
		seen = append(seen, s.ID+" has "+s.IPv6)
	}
	return cmp.Or(doubt, good("%s", strings.Join(seen, ", ")))
}

// addresses6 checks that nodes in a subnet get IPv6 addresses
// (https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html).
func (f *facts) addresses6(s awsapi.Subnet) *result {
	assigned := s.IPv6Addresses
	if said := f.launch.value.IPv6Address; said != nil {
		assigned = *said
	}
	switch {
	case s.IPv6 == "" && len(f.vpc.value.IPv6) == 0:
		return bad("aws ec2 associate-vpc-cidr-block --amazon-provided-ipv6-cidr-block --vpc-id "+s.VPC,
			"the cluster uses IPv6, but neither %s nor %s has an IPv6 network", s.ID, s.VPC)
	case s.IPv6 == "":
		return bad("aws ec2 associate-subnet-cidr-block --ipv6-cidr-block IPV6-NETWORK --subnet-id "+s.ID,
			"the cluster uses IPv6, but %s has no IPv6 network", s.ID)
	case !assigned && f.target.Instance != "":
		return bad("aws ec2 assign-ipv6-addresses --ipv6-address-count 1 --network-interface-id $(aws ec2 "+
			"describe-instances --instance-ids "+f.target.Instance+
			" --query Reservations[0].Instances[0].NetworkInterfaces[0].NetworkInterfaceId --output text)",
			"the cluster uses IPv6, but %s has no IPv6 address", f.launch.value.From)
	case !assigned:
		return bad("aws ec2 modify-subnet-attribute --assign-ipv6-address-on-creation --subnet-id "+s.ID,
			"the cluster uses IPv6, but instances in %s get no IPv6 address", s.ID)
	}
	return nil
}

// route6 checks the route to the internet over IPv6. Nodes join without the route,
// and a subnet without IPv4 access needs none.
func (f *facts) route6(s awsapi.Subnet) *result {
	routes := internet6(s)
	gateway := "--egress-only-internet-gateway-id $(aws ec2 create-egress-only-internet-gateway --vpc-id " + s.VPC +
		" --query EgressOnlyInternetGateway.EgressOnlyInternetGatewayId --output text)"
	target := fmt.Sprintf("--route-table-id %s --destination-ipv6-cidr-block %s %s", s.Table, anywhere6, gateway)
	switch {
	case s.Table == "" || len(routes) == 0 && f.exit(s).verdict != OK:
		return nil
	case len(routes) == 0:
		return maybe("aws ec2 create-route "+target, "%s has no IPv6 route to the internet (%s), so pods reach no "+
			"IPv6 address outside %s; nodes join", s.ID, anywhere6, s.VPC)
	case routes[0].Blackhole:
		return maybe("aws ec2 replace-route "+target, "the IPv6 route of %s to %s is a blackhole, so pods reach no "+
			"IPv6 address outside %s; nodes join", s.ID, routes[0].Via, s.VPC)
	}
	return nil
}
