package preflight

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
)

type service struct {
	// name is the last part of the endpoint's service name.
	name string
	// calls are a node's calls, as an endpoint's policy sees them.
	calls []call
	// maybe says in which setups nodes need the service. It is empty when all do.
	maybe string
}

type call struct{ action, resource string }

// region is the cluster's region, or a name in its place.
func (f *facts) region() string {
	return cmp.Or(awsnames.Split(f.cluster.value.ARN).Region, "REGION")
}

// partition is the cluster's partition: aws, aws-cn, aws-us-gov or another.
func (f *facts) partition() string { return partition(f.cluster.value.ARN) }

func partition(arn string) string { return cmp.Or(awsnames.Split(arn).Partition, "aws") }

// serviceName is the name of a service's endpoints. In China, some names begin with
// cn (https://github.com/aws/aws-cdk/pull/25333 has the output of
// `aws ec2 describe-vpc-endpoint-services`).
func (f *facts) serviceName(service string) string {
	name := "com.amazonaws." + f.region() + "." + service
	if f.partition() == "aws-cn" && slices.Contains([]string{"ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "sts"},
		service) {
		return "cn." + name
	}
	return name
}

// services lists the services that nodes of this setup need
// (https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html).
func (f *facts) services() []service {
	arn := "arn:" + f.partition() + ":"
	image := f.arn("ecr", eksRegistry, "repository/eks/pause")
	list := []service{
		{name: "ec2", calls: []call{{"ec2:DescribeInstances", "*"}}},
		{name: "ecr.api", calls: []call{{"ecr:GetAuthorizationToken", "*"}}},
		{name: "ecr.dkr", calls: []call{{"ecr:BatchGetImage", image}, {"ecr:GetDownloadUrlForLayer", image}}},
		// ECR keeps the layers in a bucket of its own
		// (https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html).
		{name: "s3", calls: []call{{"s3:GetObject", arn + "s3:::prod-" + f.region() + "-starport-layer-bucket/layer"}}},
		{name: "sts"},
	}
	describe := []call{{"eks:DescribeCluster", f.cluster.value.ARN}}
	switch complete, known := f.complete(); {
	case !known:
		list = append(list, service{name: "eks", calls: describe,
			maybe: "unless the user data has endpoint and certificate authority"})
	case !complete:
		list = append(list, service{name: "eks", calls: describe})
	}
	if f.addon(podIdentityAgent) != nil {
		list = append(list, service{name: "eks-auth", maybe: "for pods with EKS Pod Identity"})
	}
	return list
}

// complete says whether the user data names the endpoint and the certificate
// authority. Nodes without them ask EKS.
func (f *facts) complete() (complete, known bool) {
	if f.launch.absent || f.launch.err != nil || f.userData.err != nil || f.userData.absent ||
		len(f.launch.value.UserData) == 0 {
		return false, false
	}
	c := f.userData.value.Cluster
	return c.Endpoint != "" && c.CA != "", true
}

// serving is what the VPC's endpoints do for a service.
type serving struct {
	// takes says that calls from the subnet go to an endpoint.
	takes bool
	// fault says why the endpoint does not serve. Without takes and fault, the VPC
	// has no endpoint for the service.
	fault *result
}

// serve looks for the endpoint to which calls from a subnet go.
func (f *facts) serve(s awsapi.Subnet, svc service) serving {
	var said serving
	for _, e := range f.vpc.value.Endpoints {
		gone := strings.HasPrefix(strings.ToLower(e.State), "delet") // AWS shows deleted endpoints for a while
		if gone || !strings.HasSuffix(e.Service, "."+f.region()+"."+svc.name) {
			continue
		}
		unused := f.unused(s, e)
		if unused != nil {
			if said.fault == nil && !said.takes {
				said.fault = unused
			}
			continue
		}
		fault := f.faulty(s, e, svc)
		// The name of an interface endpoint wins over the route to a gateway.
		if e.Interface || !said.takes {
			said = serving{true, fault}
		}
		if e.Interface {
			break
		}
	}
	return said
}

// unused says why no call from a subnet goes to an endpoint, or returns nil.
func (f *facts) unused(s awsapi.Subnet, e awsapi.Endpoint) *result {
	switch {
	case !strings.EqualFold(e.State, "available"):
		return bad("aws ec2 describe-vpc-endpoints --vpc-endpoint-ids "+e.ID, "the endpoint %s for %s is %s", e.ID,
			e.Service, e.State)
	case e.Interface && !e.PrivateDNS:
		return bad("aws ec2 modify-vpc-endpoint --vpc-endpoint-id "+e.ID+" --private-dns-enabled",
			"the name of %s does not resolve to the endpoint %s", e.Service, e.ID)
	case e.Interface && !(f.vpc.value.DNSSupport && f.vpc.value.DNSHostname):
		off := "--enable-dns-hostnames"
		if !f.vpc.value.DNSSupport {
			off = "--enable-dns-support"
		}
		return bad("aws ec2 modify-vpc-attribute "+off+" --vpc-id "+s.VPC,
			"the name of %s does not resolve to the endpoint %s, because DNS support or DNS host names are off in %s",
			e.Service, e.ID, s.VPC)
	case !e.Interface && s.Table == "":
		return maybe("aws ec2 describe-vpc-endpoints --vpc-endpoint-ids "+e.ID,
			"AWS does not show whether %s has a route to the endpoint %s for %s", s.ID, e.ID, e.Service)
	case !e.Interface && !slices.Contains(e.Tables, s.Table):
		return bad(fmt.Sprintf("aws ec2 modify-vpc-endpoint --vpc-endpoint-id %s --add-route-table-ids %s", e.ID,
			s.Table),
			"the route table %s has no route to the endpoint %s for %s", s.Table, e.ID, e.Service)
	}
	return nil
}

// faulty says why an endpoint refuses calls that go to it, or returns nil.
func (f *facts) faulty(s awsapi.Subnet, e awsapi.Endpoint, svc service) *result {
	if e.IPv6Only && s.IPv6 == "" {
		return bad("aws ec2 modify-vpc-endpoint --ip-address-type dualstack --vpc-endpoint-id "+e.ID,
			"the endpoint %s for %s has only IPv6 addresses, but %s has no IPv6 network", e.ID, e.Service, s.ID)
	}
	reach := f.leaves
	if e.Interface {
		reach = f.reaches
	}
	if r := reach(s, e); r != nil {
		return r
	}
	return f.permits(e, svc)
}

// leaves checks that the node's security groups let traffic out to a gateway
// endpoint. The addresses behind the gateway are public.
func (f *facts) leaves(s awsapi.Subnet, e awsapi.Endpoint) *result {
	r := f.leavesNode(s)
	if r == nil {
		return nil
	}
	// A rule with a prefix list is usually for the gateway's.
	if lets(f.nodeGroups.value, true, port{"tcp", 443}, nil, []string{anywhere}) == unclear {
		return nil
	}
	r.evidence += fmt.Sprintf(", such as the endpoint %s for %s, whose addresses are public", e.ID, e.Service)
	for _, route := range s.Routes {
		if route.Via == e.ID && strings.HasPrefix(route.To, "pl-") {
			r.remedy = fmt.Sprintf(`aws ec2 authorize-security-group-egress --group-id %s --ip-permissions '[`+
				`{"IpProtocol":"tcp","FromPort":443,"ToPort":443,"PrefixListIds":[{"PrefixListId":"%s"}]}]'`,
				f.nodeGroups.value[0].ID, route.To)
		}
	}
	return r
}

// reaches checks the security groups between a subnet's nodes and an interface
// endpoint.
func (f *facts) reaches(s awsapi.Subnet, e awsapi.Endpoint) *result {
	groups := slices.DeleteFunc(slices.Clone(f.endpointGroups.value), func(g awsapi.SecurityGroup) bool {
		return !slices.Contains(e.Groups, g.ID)
	})
	nodes, known := f.nodeGroups.value, f.nodeGroups.err == nil && len(f.nodeGroups.value) > 0
	from, source := ids(nodes), s.ID
	if !known { // nodes usually have the cluster's group
		from = []string{f.cluster.value.ClusterSecurityGroup}
	} else {
		source = strings.Join(from, ", ")
	}
	https, network, vpc := port{"tcp", 443}, s.CIDR, f.vpc.value.CIDRs
	if e.IPv6Only {
		network, vpc = s.IPv6, f.vpc.value.IPv6
	}
	what := fmt.Sprintf("%s of the endpoint %s for %s", strings.Join(e.Groups, ", "), e.ID, e.Service)
	in := "aws ec2 describe-vpc-endpoints --vpc-endpoint-ids " + e.ID
	if len(e.Groups) > 0 {
		in = fmt.Sprintf("aws ec2 authorize-security-group-ingress --group-id %s --protocol tcp --port 443 "+
			"--source-group %s", e.Groups[0], from[0])
	}
	switch said := lets(groups, false, https, from, []string{network}); {
	case said == unclear || said == shut && !known &&
		any443(groups, false, func(r awsapi.Rule) bool { return len(r.Groups) > 0 }):
		return maybe(in, "%s may let nothing in to port 443 from %s: preflight cannot see what their rules refer to",
			what, source)
	case said == shut:
		return bad(in, "%s let nothing in to port 443 from %s", what, source)
	}
	if !known {
		return nil
	}
	out := fmt.Sprintf("aws ec2 authorize-security-group-egress --group-id %s --protocol tcp --port 443 "+
		"--source-group %s", from[0], slices.Concat(e.Groups, []string{"GROUP"})[0])
	switch said := lets(nodes, true, https, e.Groups, vpc); {
	case said == unclear || said == shut && any443(nodes, true, func(r awsapi.Rule) bool { return len(r.CIDRs) > 0 }):
		if f.covered(nodes, e) {
			return nil
		}
		return maybe(out, "%s of the node may let nothing out to port 443 of the endpoint %s for %s: preflight cannot "+
			"see what their rules refer to", source, e.ID, e.Service)
	case said == shut:
		return bad(out, "%s of the node let nothing out to port 443 of the endpoint %s for %s", source, e.ID, e.Service)
	}
	return nil
}

// covered says whether the nodes' rules allow port 443 of all the endpoint's
// subnets.
func (f *facts) covered(nodes []awsapi.SecurityGroup, e awsapi.Endpoint) bool {
	var networks []string
	for _, id := range e.Subnets {
		all := slices.Concat(f.subnets.value, f.planeSubnets.value)
		i := slices.IndexFunc(all, func(s awsapi.Subnet) bool { return s.ID == id })
		if i < 0 {
			return false
		}
		networks = append(networks, all[i].CIDR)
	}
	return len(networks) > 0 && lets(nodes, true, port{"tcp", 443}, e.Groups, networks) == open
}

// any443 says whether a rule for port 443, of the way in or out, meets a condition.
func any443(groups []awsapi.SecurityGroup, egress bool, is func(awsapi.Rule) bool) bool {
	return slices.ContainsFunc(groups, func(g awsapi.SecurityGroup) bool {
		return slices.ContainsFunc(g.Rules(egress), func(r awsapi.Rule) bool { return r.Covers("tcp", 443) && is(r) })
	})
}

// hidingZone is a private hosted zone that hides public records of AWS.
type hidingZone struct {
	Zone awsapi.Zone
	// Lost are the names that nodes need and that the zone has no record for. Own
	// are the names with a record. Unread are those in a zone of another account.
	Lost, Own, Unread []string
}

// domain is the domain of the region's services.
func (f *facts) domain() string {
	if f.partition() == "aws-cn" {
		return f.region() + ".amazonaws.com.cn"
	}
	return f.region() + ".amazonaws.com"
}

// names lists the names that nodes look up and that only public DNS answers.
func (f *facts) names() []string {
	domain := f.domain()
	hosts := map[string]string{
		"ec2": "ec2." + domain, "ecr.api": "api.ecr." + domain, "ecr.dkr": eksRegistry + ".dkr.ecr." + domain,
		"sts": "sts." + domain, "eks": "eks." + domain,
		"s3": "prod-" + f.region() + "-starport-layer-bucket.s3." + domain,
	}
	var list []string
	for _, svc := range f.services() {
		// The zone of an interface endpoint is for exactly the service's name.
		private := slices.ContainsFunc(f.vpc.value.Endpoints, func(e awsapi.Endpoint) bool {
			return e.Interface && e.PrivateDNS && strings.HasSuffix(e.Service, "."+f.region()+"."+svc.name)
		})
		if hosts[svc.name] != "" && !private {
			list = append(list, hosts[svc.name])
		}
	}
	// With private access, EKS has a zone for exactly the name of the API server.
	if u, err := url.Parse(f.cluster.value.Endpoint); err == nil && u.Hostname() != "" &&
		!f.cluster.value.PrivateAccess {
		list = append(list, strings.ToLower(u.Hostname()))
	}
	return list
}

// readZones reads the private hosted zones of the cluster's VPC, and the records of
// those that hide names.
func (f *facts) readZones(ctx context.Context, a *awsapi.AWS) fact[[]hidingZone] {
	if f.cluster.err != nil || f.vpc.err != nil {
		return fact[[]hidingZone]{err: cmp.Or(f.cluster.err, f.vpc.err)}
	}
	zones, err := a.Zones(ctx, f.cluster.value.VPC)
	if err != nil {
		return fact[[]hidingZone]{err: err}
	}
	var found []hidingZone
	for _, name := range f.names() {
		zone := closest(zones, name)
		if zone.Name == "" || zone.Service != "" {
			continue
		}
		foreign := f.account.err == nil && zone.Account != "" && zone.Account != f.account.value
		there := false
		if !foreign {
			if there, err = a.RecordsFor(ctx, zone.ID, name); err != nil {
				return fact[[]hidingZone]{err: err}
			}
		}
		i := slices.IndexFunc(found, func(h hidingZone) bool { return h.Zone.ID == zone.ID })
		if i < 0 {
			i, found = len(found), append(found, hidingZone{Zone: zone})
		}
		switch {
		case there:
			found[i].Own = append(found[i].Own, name)
		case foreign:
			found[i].Unread = append(found[i].Unread, name)
		default:
			found[i].Lost = append(found[i].Lost, name)
		}
	}
	return fact[[]hidingZone]{value: found}
}

// closest returns the zone that answers for a name: the one with the longest domain.
func closest(zones []awsapi.Zone, name string) awsapi.Zone {
	var best awsapi.Zone
	for _, z := range zones {
		if (name == z.Name || strings.HasSuffix(name, "."+z.Name)) && len(z.Name) > len(best.Name) {
			best = z
		}
	}
	return best
}

func checkZones(f *facts) *result {
	switch {
	case f.hiding.err != nil && slices.ContainsFunc(f.subnets.value, f.foreign):
		return maybe("aws route53 list-hosted-zones-by-vpc --vpc-id "+f.cluster.value.VPC+" --vpc-region "+f.region(),
			"another account owns %s and its subnets, so its owner must check the private hosted zones (%v)",
			f.cluster.value.VPC, f.hiding.err)
	case f.hiding.err != nil:
		return f.unseen(f.hiding.err)
	}
	var own []string
	for _, h := range f.hiding.value {
		if len(h.Lost) > 0 {
			return bad("aws route53 list-resource-record-sets --hosted-zone-id "+h.Zone.ID,
				"the private hosted zone %s (%s) of %s hides %s and has no record for this name: add records, or "+
					"disassociate the zone from the VPC",
				h.Zone.Name, h.Zone.ID, f.cluster.value.VPC, strings.Join(h.Lost, ", "))
		}
		own = append(own, fmt.Sprintf("%s has records of its own for %s", h.Zone.Name,
			strings.Join(append(h.Own, h.Unread...), ", ")))
	}
	for _, h := range f.hiding.value {
		// A zone for one service usually leads to an endpoint in another VPC.
		if len(h.Unread) > 0 && h.Zone.Name != h.Unread[0] && !strings.HasSuffix(h.Zone.Name, "."+f.domain()) {
			return maybe("aws route53 list-hosted-zones-by-vpc --vpc-id "+f.cluster.value.VPC+" --vpc-region "+
				f.region(),
				"the private hosted zone %s (%s) of the account %s hides %s: its owner must check that the zone has "+
					"records for this name",
				h.Zone.Name, h.Zone.ID, h.Zone.Account, strings.Join(h.Unread, ", "))
		}
	}
	if len(own) > 0 {
		return good("%s", strings.Join(own, "; "))
	}
	return good("no zone of %s hides names that nodes need", f.cluster.value.VPC)
}
