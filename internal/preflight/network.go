package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// least is how many free addresses a subnet should have: a node and its pods take
// several dozen.
const least = 16

func checkSubnets(f *facts) result {
	switch {
	case f.cluster.err != nil:
		return f.unseen(f.cluster.err)
	case f.subnets.err != nil:
		return f.unseen(f.subnets.err)
	}
	var seen, few []string
	for _, s := range f.subnets.value {
		if s.VPC != f.cluster.value.VPC {
			return bad("aws ec2 describe-subnets --filters Name=vpc-id,Values="+f.cluster.value.VPC, "%s is in %s, but the cluster is in %s", s.ID, s.VPC, f.cluster.value.VPC)
		}
		seen = append(seen, fmt.Sprintf("%s with %d addresses%s", s.ID, s.Free, f.place(s)))
		if s.Free < least {
			few = append(few, seen[len(seen)-1])
		}
	}
	if len(few) > 0 {
		return maybe("aws ec2 create-subnet --vpc-id "+f.cluster.value.VPC+" --cidr-block CIDR", "%s", strings.Join(few, ", "))
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

func checkSubnetTag(f *facts) result {
	switch {
	case f.cluster.err != nil:
		return f.unseen(f.cluster.err)
	case f.subnets.err != nil:
		return f.unseen(f.subnets.err)
	}
	if n, ok := minor(f.cluster.value.Version); !ok || n > 18 {
		return good("not needed since 1.19")
	}
	key := "kubernetes.io/cluster/" + f.target.Cluster
	for _, s := range f.subnets.value {
		if v := s.Tags[key]; v != "shared" && v != "owned" {
			return bad(fmt.Sprintf("aws ec2 create-tags --resources %s --tags Key=%s,Value=shared", s.ID, key), "%s has no tag %s=shared", s.ID, key)
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
		return "aws ec2 associate-address --instance-id " + f.target.Instance + " --allocation-id $(aws ec2 allocate-address --query AllocationId --output text)"
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

func checkDNS(f *facts) result {
	v := f.vpc.value
	switch {
	case f.vpc.err != nil:
		return f.unseen(f.vpc.err)
	case v.NoDHCP:
		return bad(f.dhcpOptions(), "%s has no DHCP options, so instances get no name server", v.ID)
	case !v.DNSSupport:
		return bad("aws ec2 modify-vpc-attribute --enable-dns-support --vpc-id "+v.ID, "DNS support is off in %s", v.ID)
	case !v.DNSHostname:
		return bad("aws ec2 modify-vpc-attribute --enable-dns-hostnames --vpc-id "+v.ID, "DNS host names are off in %s", v.ID)
	}
	// resolver is the address of AWS's resolver in every VPC, in addition to the
	// one in each network.
	const resolver = "169.254.169.253"
	for _, server := range v.NameServers {
		if f.onlyPublic() {
			break
		}
		if server != "AmazonProvidedDNS" && server != resolver && !slices.Contains(v.Resolvers(), server) {
			return maybe(f.seeDHCP(), "the DHCP options of %s set the name server %s: this server must forward the names of private endpoints to AWS's own name server", v.ID, server)
		}
	}
	return good("support and host names are on in %s", v.ID)
}

// onlyPublic says whether nodes need no name that only AWS's own name server answers:
// neither the cluster nor an endpoint has private names.
func (f *facts) onlyPublic() bool {
	named := func(e awsapi.Endpoint) bool { return e.Interface && e.PrivateDNS }
	return f.cluster.err == nil && !f.cluster.value.PrivateAccess && !slices.ContainsFunc(f.vpc.value.Endpoints, named)
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
	return fmt.Sprintf("aws ec2 associate-dhcp-options --vpc-id %s --dhcp-options-id $(aws ec2 create-dhcp-options --dhcp-configurations "+
		"Key=domain-name-servers,Values=AmazonProvidedDNS Key=domain-name,Values=%s --query DhcpOptions.DhcpOptionsId --output text)", f.vpc.value.ID, domain)
}

func checkDomain(f *facts) result {
	v := f.vpc.value
	if f.vpc.err != nil {
		return f.unseen(f.vpc.err)
	}
	for _, d := range v.Domains {
		if d != "ec2.internal" && !strings.HasSuffix(d, ".compute.internal") && !strings.HasSuffix(d, ".compute.amazonaws.com.cn") {
			return maybe(f.seeDHCP(), "the DHCP options of %s set the domain %s: the cluster refuses nodes that take their name from this domain, but other machines may need the domain", v.ID, d)
		}
	}
	return good("%s", strings.Join(append([]string{"domain"}, v.Domains...), " "))
}
