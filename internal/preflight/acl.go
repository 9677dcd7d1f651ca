package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

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
					crossing{port.server, true, firstEphemeral, lastEphemeral, f.cidr(port.client), "the replies of " + port.what},
					crossing{port.client, false, firstEphemeral, lastEphemeral, f.cidr(port.server), "the replies of " + port.what},
				)
			}
		}
	}
	return list
}

func checkACL(f *facts) result {
	for _, err := range []error{f.subnets.err, f.planeSubnets.err, f.acls.err} {
		if err != nil {
			return f.unseen(err)
		}
	}
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
	var seen []string
	for _, acl := range f.acls.value {
		seen = append(seen, acl.ID)
	}
	return good("let through by %v", seen)
}

// aclOf finds the ACL of a subnet.
func (f *facts) aclOf(s awsapi.Subnet) (awsapi.ACL, bool) {
	i := slices.IndexFunc(f.acls.value, func(acl awsapi.ACL) bool { return slices.Contains(acl.Subnets, s.ID) })
	if i < 0 {
		return awsapi.ACL{}, false
	}
	return f.acls.value[i], true
}

// passes checks a crossing against the ACL of its subnet.
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
	return fmt.Sprintf("%s of %s does not let %s pass: TCP to %s, %s %s", acl.ID, c.subnet.ID, c.what, ports, way, c.network)
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
	family := "cidr-block"
	if strings.Contains(c.network, ":") {
		family = "ipv6-cidr-block"
	}
	return fmt.Sprintf("aws ec2 create-network-acl-entry --network-acl-id %s %s --rule-number %s --protocol tcp --port-range From=%d,To=%d --%s %s --rule-action allow",
		acl.ID, direction, number, c.from, c.to, family, c.network)
}
