package preflight

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

func ids(groups []awsapi.SecurityGroup) []string {
	return show.Each(groups, func(g awsapi.SecurityGroup) string { return g.ID })
}

// passage is the decision of security groups about traffic.
type passage int

const (
	shut passage = iota
	// unclear is a rule with a prefix list, which may contain the other side.
	unclear
	open
)

// lets says whether groups allow a port to or from one of the other groups, or to
// all addresses of the networks.
func lets(groups []awsapi.SecurityGroup, egress bool, p port, others, networks []string) passage {
	said := shut
	// IPv6-only subnets have no CIDR
	left := slices.DeleteFunc(slices.Clone(networks), func(n string) bool { return n == "" })
	for _, g := range groups {
		for _, r := range g.Rules(egress) {
			if !r.Covers(p.protocol, p.number) {
				continue
			}
			if slices.ContainsFunc(r.Groups, func(g string) bool { return slices.Contains(others, g) }) {
				return open
			}
			if n := len(left); n > 0 {
				left = slices.DeleteFunc(left, func(network string) bool {
					return slices.ContainsFunc(r.CIDRs, func(c string) bool { return covers(c, network) })
				})
				if len(left) == 0 {
					return open
				}
			}
			if len(r.Lists) > 0 {
				said = unclear
			}
		}
	}
	return said
}

func covers(outer, inner string) bool {
	o, err := netip.ParsePrefix(outer)
	i, alsoErr := netip.ParsePrefix(inner)
	return err == nil && alsoErr == nil && o.Bits() <= i.Bits() && o.Contains(i.Addr())
}

// cidr is the network of a subnet in the cluster's family. In an IPv6 cluster, nodes
// and pods have IPv6 addresses.
func (f *facts) cidr(s awsapi.Subnet) string {
	if f.cluster.value.IPFamily == ipv6 {
		return s.IPv6
	}
	return s.CIDR
}

func (f *facts) networks(subnets []awsapi.Subnet) []string {
	return show.Each(subnets, func(s awsapi.Subnet) string { return f.cidr(s) })
}

// groups returns nil when both sides have security groups, and otherwise the result
// to report.
func (f *facts) groups() *result {
	if len(f.nodeGroups.value) == 0 || len(f.planeGroups.value) == 0 {
		return maybe(f.newVersion(map[string]any{"SecurityGroupIds": []string{f.cluster.value.ClusterSecurityGroup}}),
			"%s names no security group, so its instances get the VPC's default group", f.launch.value.From)
	}
	return nil
}

type port struct {
	protocol string
	number   int
}

type side struct {
	name     string
	groups   []awsapi.SecurityGroup
	networks []string
}

func (f *facts) nodeSide(name string) side {
	return side{name, f.nodeGroups.value, f.networks(f.subnets.value)}
}

func (f *facts) planeSide() side {
	return side{"the control plane", f.planeGroups.value, f.networks(f.planeSubnets.value)}
}

func (f *facts) path(from, to side, ports ...port) *result {
	if not := f.groups(); not != nil {
		return not
	}
	sources, targets := strings.Join(ids(from.groups), ", "), strings.Join(ids(to.groups), ", ")
	for _, p := range ports {
		out := fmt.Sprintf("%s of %s let nothing out to port %d of %s", sources, from.name, p.number, to.name)
		in := fmt.Sprintf("%s of %s let nothing in to port %d from %s", targets, to.name, p.number, sources)
		if r := cmp.Or(p.stopped("egress", from, to, out), p.stopped("ingress", to, from, in)); r != nil {
			return r
		}
	}
	return good("%s to %s", sources, targets)
}

// stopped is the result when the security groups of a side do not let traffic with the
// other side pass, or nil.
func (p port) stopped(direction string, here, there side, said string) *result {
	remedy := fmt.Sprintf("aws ec2 authorize-security-group-%s --group-id %s --protocol %s --port %d --source-group %s",
		direction, here.groups[0].ID, p.protocol, p.number, there.groups[0].ID)
	switch lets(here.groups, direction == "egress", p, ids(there.groups), there.networks) {
	case shut:
		return bad(remedy, "%s (%s)", said, p.protocol)
	case unclear:
		return maybe(remedy, "%s (%s), unless one of their prefix lists allows it", said, p.protocol)
	}
	return nil
}

// DNS uses both protocols, and metrics-server connects to kubelets.
func checkNodeToNode(f *facts) *result {
	ports := []port{{"udp", 53}, {"tcp", 53}, {"tcp", 10250}}
	return f.path(f.nodeSide("the node"), f.nodeSide("other nodes"), ports...)
}

func (f *facts) windows() bool {
	class := f.target.NodeClass
	return f.image.value.Platform == "windows" || familyOf(f.group.value.AMIType) == "windows" ||
		class != nil && strings.HasPrefix(strings.ToLower(class.AMIFamily+class.alias()), "windows")
}

func (f *facts) withAuth() string {
	return clustersetup.PrintAuth + " | " + f.target.command("--aws-auth -")
}

// entryType is the type of access entry for these nodes. Users of the type EC2 have the name
// of their session, an instance ID.
func (f *facts) entryType() string {
	if f.userData.value.NamedByID {
		return "EC2"
	}
	return clustersetup.Node{Windows: f.windows()}.EntryType()
}

// username is the template of the nodes' name in aws-auth.
func (f *facts) username() string {
	if f.userData.value.NamedByID {
		return "system:node:{{SessionName}}"
	}
	return clustersetup.Username
}

// entryUsers says which nodes or users need an access entry of a type.
func entryUsers(kind string) string {
	return cmp.Or(texts().EntryUsers[kind], "another user may need it")
}

func checkAccess(f *facts, role *awsapi.Role) *result {
	if r := f.unseen(f.cluster.err, f.entry.err); r != nil {
		return r
	}
	mode, kind := f.cluster.value.AuthenticationMode, f.entry.value.Type
	create := fmt.Sprintf("aws eks create-access-entry --cluster-name %s --principal-arn %s --type %s",
		f.target.Cluster, role.ARN, f.entryType())
	switch {
	case kind == f.entryType():
		return good("by the access entry of type %s", kind)
	case kind != "":
		why := ""
		if f.userData.value.NamedByID {
			why = ", because InstanceIdNodeName in the user data names nodes by instance ID"
		}
		return bad(f.newRole(), "the access entry of %s has the type %s, but must have %s%s: %s, so keep the entry "+
			"and give these nodes their own role", role.ARN, kind, f.entryType(), why, entryUsers(kind))
	case mode == "API":
		return bad(create, "%s has no access entry, and the cluster uses nothing else", role.ARN)
	case f.target.AWSAuth == nil && f.managed():
		return maybe(f.withAuth(), "EKS let the role %s in when it made the node group; only the Kubernetes API can "+
			"show whether aws-auth still does", role.ARN)
	case f.target.AWSAuth == nil && mode == clustersetup.ConfigMap:
		return f.unread("the authentication mode is CONFIG_MAP: aws-auth decides, and")
	case f.target.AWSAuth == nil:
		return f.unread(role.ARN + " has no access entry: aws-auth decides, and")
	}
	lines, err := clustersetup.MappedRoles(f.target.AWSAuth)
	if err != nil {
		return f.unseen(err)
	}
	if !slices.ContainsFunc(lines, func(l clustersetup.MappedRole) bool {
		return strings.EqualFold(l.ARN, mapped(role))
	}) {
		return bad(f.merge(role.ARN), "aws-auth has no line for %s", mapped(role))
	}
	return good("by aws-auth")
}

// merge is the command that adds a role to aws-auth and keeps the other lines.
func (f *facts) merge(role string) string {
	if f.userData.value.NamedByID { // the command's line has the private DNS name
		return clustersetup.EditAuth
	}
	return clustersetup.Node{Cluster: f.target.Cluster, Role: role, Windows: f.windows()}.MergeAuth()
}

// unread is the result when aws-auth decides and was not passed.
func (f *facts) unread(why string) *result {
	return &result{verdict: Unknown, evidence: why + " only the Kubernetes API can read aws-auth",
		remedy: f.withAuth(), cause: "aws-auth"}
}

func checkAWSAuth(f *facts) *result {
	role, not := f.role()
	switch {
	case f.cluster.value.AuthenticationMode == "API":
		return good("the cluster does not use aws-auth")
	case not != nil:
		return not
	case f.entry.err == nil && f.entry.value.Type == f.entryType():
		return good("not needed: the access entry lets the role in and has precedence")
	case f.target.AWSAuth == nil && f.entry.err != nil:
		return f.unseen(f.entry.err)
	case f.target.AWSAuth == nil && f.managed():
		return maybe(f.withAuth(), "aws-auth was not passed; EKS added the role's line when it made the node group")
	case f.target.AWSAuth == nil:
		return f.unread("aws-auth was not passed;")
	}
	lines, err := clustersetup.MappedRoles(f.target.AWSAuth)
	if err != nil {
		return f.unseen(err)
	}
	for _, l := range slices.Backward(lines) { // the authenticator uses the last match
		if strings.EqualFold(l.ARN, mapped(role)) {
			return f.line(l, role.ARN)
		}
	}
	for _, l := range lines {
		switch {
		case strings.Contains(l.ARN, ":role/") && strings.HasSuffix(l.ARN, "/"+role.Name):
			return bad(f.merge(role.ARN), "%s has a path, which the authenticator ignores: write the ARN "+
				"without the path", l.ARN)
		case strings.Contains(l.ARN, ":instance-profile/"):
			return bad(f.merge(role.ARN), "%s is an instance profile; the line needs the role's ARN", l.ARN)
		}
	}
	return bad(f.merge(role.ARN), "aws-auth has no line for %s", mapped(role))
}

// line checks the node role's line.
func (f *facts) line(l clustersetup.MappedRole, role string) *result {
	if l.Username != f.username() {
		return bad(clustersetup.EditAuth, "the username of %s is %q, but must be %s: if that username is in use, give "+
			"these nodes their own role", l.ARN, l.Username, f.username())
	}
	for _, g := range clustersetup.Groups(f.windows()) {
		if !slices.Contains(l.Groups, g) {
			return bad(f.merge(role), "%s is not in the group %s", l.ARN, g)
		}
	}
	return good("%s is a node", l.ARN)
}

// mapped is a role's ARN as aws-auth has it.
func mapped(role *awsapi.Role) string { return clustersetup.Node{Role: role.ARN}.Mapped() }
