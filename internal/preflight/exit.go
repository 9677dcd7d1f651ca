package preflight

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// exit is where a subnet's traffic to the internet goes.
type exit struct {
	// result has the evidence after the subnet's name: "has no route".
	*result
	// via is the ID of the gateway, or empty.
	via string
	// addresses are the public addresses from which the traffic comes. It is empty
	// when they are not known in advance.
	addresses []string
}

// toInternet returns the subnet's routes to the internet: one to everything, or one
// to each part, which are more specific.
func toInternet(s awsapi.Subnet, everything string, parts ...string) []awsapi.Route {
	var found []awsapi.Route
	for _, part := range parts {
		found = append(found, routesTo(s, part)...)
	}
	if len(found) > 0 && len(found) == len(parts) {
		return found
	}
	return routesTo(s, everything)
}

func routesTo(s awsapi.Subnet, destination string) []awsapi.Route {
	return slices.DeleteFunc(slices.Clone(s.Routes), func(r awsapi.Route) bool { return r.To != destination })
}

// internet4 and internet6 return the routes to the internet of a family.
func internet4(s awsapi.Subnet) []awsapi.Route {
	return toInternet(s, anywhere, "0.0.0.0/1", "128.0.0.0/1")
}

func internet6(s awsapi.Subnet) []awsapi.Route {
	if routes := routesTo(s, "2000::/3"); len(routes) > 0 { // all public addresses
		return routes
	}
	return toInternet(s, anywhere6, "::/1", "8000::/1")
}

// exit follows the subnet's IPv4 traffic to the internet.
func (f *facts) exit(s awsapi.Subnet) exit {
	routes := internet4(s)
	if s.CIDR == "" {
		// https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-nat64-dns64.html
		if routes = routesTo(s, "64:ff9b::/96"); len(routes) == 0 || !s.DNS64 {
			return exit{result: bad("", "has no IPv4 network, and no NAT64 with DNS64 for services without IPv6")}
		}
	}
	switch {
	case s.Table == "":
		return exit{result: maybe("aws ec2 describe-subnets --subnet-ids "+s.ID, "has a route table that AWS does not "+
			"show to you: the account %s owns the subnet, so its owner must check the default route", s.Owner)}
	case len(routes) == 0 && slices.ContainsFunc(s.Routes, toPublic):
		return exit{result: maybe("aws ec2 describe-route-tables --route-table-ids "+s.Table, "has no default route, "+
			"and only routes to some public networks: check that they contain the addresses of AWS's services")}
	case len(routes) == 0:
		return exit{result: bad("", "has no route to the internet")}
	}
	worst := f.follow(s, routes[0])
	for _, r := range routes[1:] {
		if next := f.follow(s, r); worst.verdict == OK || worst.verdict == Warn && next.verdict == Fail {
			worst = next
		}
	}
	return worst
}

// toPublic says whether a route leads to public addresses through something else
// than a gateway endpoint.
func toPublic(r awsapi.Route) bool {
	if strings.HasPrefix(r.Via, "vpce-") {
		return false
	}
	network, err := netip.ParsePrefix(r.To)
	return err != nil || !private(network)
}

// private says whether a network is not part of the internet.
func private(n netip.Prefix) bool {
	for _, of := range []string{"10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
		"fc00::/7", "fe80::/10", "64:ff9b::/96"} {
		if netip.MustParsePrefix(of).Overlaps(n) {
			return true
		}
	}
	return false
}

func (f *facts) follow(s awsapi.Subnet, r awsapi.Route) exit {
	e := exit{via: r.Via}
	switch {
	case r.Blackhole:
		e.result = bad(f.refill(s, r), "routes to %s, which is gone, detached or stopped (blackhole)", r.Via)
	case strings.HasPrefix(r.Via, "igw-") && !f.assigned(s):
		e.result = bad(f.publicAddress(s), "routes to %s, but its instances get no public address", r.Via)
	case strings.HasPrefix(r.Via, "igw-") && s.Blocked:
		e.result = bad(exclude(s.ID), "routes to %s, but VPC Block Public Access stops the traffic", r.Via)
	case strings.HasPrefix(r.Via, "igw-"):
		e.result, e.addresses = good("routes to %s", r.Via), f.launch.value.Addresses
	case strings.HasPrefix(r.Via, "nat-"):
		e.result, e.addresses = f.throughNAT(s, r)
	default:
		e.result = elsewhere(s, r)
	}
	return e
}

// gateway is a kind of target behind which preflight cannot see.
type gateway struct {
	// Prefix begins the target's ID.
	Prefix string `yaml:"prefix"`
	Is     string `yaml:"is"`
	// Check is what a person must check, and Command shows it.
	Check   string `yaml:"check"`
	Command string `yaml:"command"`
}

// elsewhere is the result for a target behind which preflight cannot see.
func elsewhere(s awsapi.Subnet, r awsapi.Route) *result {
	g := gateway{Is: "another gateway", Check: "the way behind the gateway"}
	command := "aws ec2 describe-route-tables --route-table-ids " + s.Table
	if i := slices.IndexFunc(texts().Gateways, func(g gateway) bool {
		return strings.HasPrefix(r.Via, g.Prefix)
	}); i >= 0 {
		g = texts().Gateways[i]
		command = strings.TrimSuffix(g.Command, "ID") + r.Via
	}
	return maybe(command, "routes to %s, %s: preflight cannot see whether this leads to AWS's services, so check %s",
		r.Via, g.Is, g.Check)
}

// throughNAT is the result for a route to a NAT gateway, with the gateway's addresses.
func (f *facts) throughNAT(s awsapi.Subnet, r awsapi.Route) (said *result, addresses []string) {
	i := slices.IndexFunc(f.nats.value, func(n awsapi.NAT) bool { return n.ID == r.Via })
	switch {
	case i < 0 && f.foreign(s):
		// Participants cannot describe NAT gateways of a shared VPC
		// (https://docs.aws.amazon.com/vpc/latest/userguide/vpc-share-limitations.html).
		return maybe("aws ec2 describe-subnets --subnet-ids "+s.ID, "routes to %s, which AWS does not show to you: "+
			"the account %s owns the subnet, so its owner must check the gateway", r.Via, s.Owner), nil
	case i < 0:
		return bad(f.refill(s, r), "routes to %s, which does not exist in %s", r.Via, s.VPC), nil
	}
	n := f.nats.value[i]
	if n.State == "pending" {
		return maybe("aws ec2 wait nat-gateway-available --nat-gateway-ids "+n.ID, "routes to %s, which is pending",
			n.ID), nil
	}
	verdict, why := leads(n)
	remedy := f.refill(s, r)
	switch {
	case verdict == Warn:
		remedy = "aws ec2 describe-nat-gateways --nat-gateway-ids " + n.ID
	case n.Subnet != nil && n.Subnet.Blocked:
		remedy = exclude(n.Subnet.ID)
	}
	return &result{verdict: verdict, evidence: fmt.Sprintf("routes to %s, %s", n.ID, why), remedy: remedy}, n.Addresses
}

// leads says whether a NAT gateway leads to the internet, and otherwise why not.
func leads(n awsapi.NAT) (Verdict, string) {
	if n.State != "available" {
		return Fail, "which is " + n.State
	}
	if n.Subnet == nil { // a regional gateway has a route of its own
		return OK, ""
	}
	verdict, behind := Fail, "has no route to an internet gateway"
	for _, r := range internet4(*n.Subnet) {
		switch {
		case r.Blackhole || strings.HasPrefix(r.Via, "nat-"):
			behind = fmt.Sprintf("routes to %s instead of an internet gateway", r.Via)
		case strings.HasPrefix(r.Via, "igw-") && n.Subnet.Blocked:
			behind = "cannot use " + r.Via + ": VPC Block Public Access stops the traffic"
		case strings.HasPrefix(r.Via, "igw-") && !n.Private:
			return OK, ""
		case strings.HasPrefix(r.Via, "igw-"):
			behind = "routes to " + r.Via
		default:
			verdict, behind = Warn, "routes to "+r.Via+": preflight cannot see whether this leads to AWS's services"
		}
	}
	if n.Private {
		return verdict, fmt.Sprintf("a private NAT gateway without a public address, and its subnet %s %s", n.Subnet.ID,
			behind)
	}
	return verdict, fmt.Sprintf("whose subnet %s %s", n.Subnet.ID, behind)
}

// exclude is the command that lets a subnet's own connections pass VPC Block Public
// Access.
func exclude(subnet string) string {
	return "aws ec2 create-vpc-block-public-access-exclusion --internet-gateway-exclusion-mode allow-egress " +
		"--subnet-id " + subnet
}

// foreign says whether another account owns the subnet.
func (f *facts) foreign(s awsapi.Subnet) bool {
	return f.account.err == nil && s.Owner != "" && s.Owner != f.account.value
}

// unnamedSubnet replaces the name of a public subnet that preflight does not know.
const unnamedSubnet = "PUBLIC-SUBNET"

// isSpecific says whether a route is for some networks, and not to a gateway endpoint.
func isSpecific(r awsapi.Route) bool { return r.To != anywhere && !strings.HasPrefix(r.Via, "vpce-") }

// refill is the command that gives a subnet's useless route another target, or makes
// a NAT gateway for it. A route to a private gateway that serves more specific routes
// stays: the command shows these.
func (f *facts) refill(s awsapi.Subnet, r awsapi.Route) string {
	if strings.HasPrefix(r.Via, "igw-") {
		return fmt.Sprintf("aws ec2 attach-internet-gateway --internet-gateway-id %s --vpc-id %s", r.Via, s.VPC)
	}
	if !strings.HasPrefix(r.Via, "nat-") {
		return elsewhere(s, r).remedy
	}
	for _, n := range f.nats.value {
		if n.ID == r.Via && n.Private && n.Subnet != nil && slices.ContainsFunc(n.Subnet.Routes, isSpecific) {
			return "aws ec2 describe-route-tables --route-table-ids " + n.Subnet.Table
		}
	}
	for _, n := range f.nats.value {
		if verdict, _ := leads(n); verdict == OK && n.VPC == s.VPC && n.ID != r.Via {
			return fmt.Sprintf("aws ec2 replace-route --route-table-id %s --destination-%s %s --nat-gateway-id %s",
				s.Table, cidrBlock(r.To), r.To, n.ID)
		}
	}
	public := unnamedSubnet
	for _, one := range slices.Concat(f.subnets.value, f.planeSubnets.value) {
		if routes := internet4(one); one.VPC == s.VPC && len(routes) > 0 && strings.HasPrefix(routes[0].Via, "igw-") &&
			!routes[0].Blackhole {
			public = one.ID
		}
	}
	create := "aws ec2 create-nat-gateway --subnet-id " + public + " --allocation-id $(aws ec2 allocate-address " +
		"--query AllocationId --output text)"
	if public == unnamedSubnet { // without a name in its place, the command must allocate no address
		return "aws ec2 describe-subnets --subnet-ids " + public + " && " + create
	}
	return create
}
