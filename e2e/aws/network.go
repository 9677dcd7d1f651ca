//go:build linux

package aws

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
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

func (w *World) edited(action string, answer any, err error) (any, error) {
	if raw, forwarded := answer.(*endpoint.Raw); forwarded && err == nil {
		for _, e := range w.edits[action] {
			raw.Body = e.pattern.ReplaceAll(raw.Body, []byte(e.by))
		}
	}
	return answer, err
}

// Health is the result of EC2's checks of instances. Empty fields are ok.
type Health struct {
	System, Instance, Storage string
	// Event is the description of a scheduled event, or empty.
	Event string
}

type statusOut struct {
	Statuses []instanceStatus `xml:"instanceStatusSet>item"`
}

type instanceStatus struct {
	ID       string  `xml:"instanceId"`
	System   string  `xml:"systemStatus>status"`
	Instance string  `xml:"instanceStatus>status"`
	Storage  string  `xml:"attachedEbsStatus>status"`
	Events   []event `xml:"eventsSet>item,omitempty"`
}

type event struct {
	XMLName     xml.Name `xml:"item"`
	Code        string   `xml:"code"`
	Description string   `xml:"description"`
}

// describeInstanceStatus returns the world's health of instances. In moto every
// instance is healthy.
func (w *World) describeInstanceStatus(_ string, in struct{ InstanceId []string }) (statusOut, error) {
	ok := func(said string) string {
		if said == "" {
			return "ok"
		}
		return said
	}
	var out statusOut
	for _, id := range in.InstanceId {
		s := instanceStatus{ID: id, System: ok(w.Health.System), Instance: ok(w.Health.Instance), Storage: ok(w.Health.Storage)}
		if w.Health.Event != "" {
			s.Events = []event{{Code: "instance-retirement", Description: w.Health.Event}}
		}
		out.Statuses = append(out.Statuses, s)
	}
	return out, nil
}

type encryptionOut struct {
	On bool `xml:"ebsEncryptionByDefault"`
}

type defaultKeyOut struct {
	Key string `xml:"kmsKeyId"`
}

func (w *World) encryptionByDefault(string, struct{}) (encryptionOut, error) {
	return encryptionOut{w.DefaultKey != "" || w.ebs != nil && w.ebs.EncryptByDefault}, nil
}

func (w *World) defaultKey(string, struct{}) (defaultKeyOut, error) {
	switch {
	case w.DefaultKey != "":
		return defaultKeyOut{w.DefaultKey}, nil
	case w.ebs != nil && w.ebs.EncryptByDefault:
		return defaultKeyOut{w.ebs.DefaultKey}, nil
	}
	return defaultKeyOut{"alias/aws/ebs"}, nil
}

// Key makes a KMS key with a policy and returns its ARN. An empty policy lets only
// the account's own IAM policies decide.
func (w *World) Key(policy string) string {
	w.t.Helper()
	if policy == "" {
		policy = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + Account + `:root"},"Action":"kms:*","Resource":"*"}]}`
	}
	in, err := json.Marshal(map[string]string{"Policy": policy})
	require.NoError(w.t, err)
	made := regexp.MustCompile(`"Arn": *"(.*?)"`).FindSubmatch(w.Do("kms:CreateKey", string(in)))
	require.NotNil(w.t, made)
	return string(made[1])
}

// Association is a pod identity association. moto 5.1 has none: this is our own
// supplement.
type Association struct {
	ID, Namespace, Account string
	// Role and Target are ARNs. Target may be empty.
	Role, Target string
}

type groupIn struct{ Name, NodegroupName string }

// describeNodegroup returns moto's node group with the world's replacements. moto
// always adds an instance type, and no health issues.
func (w *World) describeNodegroup(ctx context.Context, call endpoint.Call, in groupIn) (any, error) {
	group, failure, err := w.kept(ctx, call, "nodegroup")
	if group == nil {
		return failure, err
	}
	maps.Copy(group, w.NodeGroups[in.NodegroupName])
	return object{"nodegroup": group}, nil
}

// NodeGroup makes a managed node group of the sample's cluster, with EKS's JSON.
// EKS lets the node's role in.
func (w *World) NodeGroup(name string, fields map[string]any) {
	w.t.Helper()
	body := object{"nodegroupName": name, "nodeRole": NodeRole, "subnets": []string{"subnet-1", "subnet-2"}, "scalingConfig": object{"minSize": 1, "maxSize": 3, "desiredSize": 2}}
	maps.Copy(body, fields)
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Do("eks:POST /clusters/my-cluster/node-groups", string(text))
	if w.NodeGroups == nil {
		w.NodeGroups = map[string]map[string]any{}
	}
	w.NodeGroups[name] = fields
	if _, there := fields["instanceTypes"]; !there && fields["launchTemplate"] != nil {
		fields["instanceTypes"] = []string{}
	}
}

// Associate gives the pods of a service account a role.
func (w *World) Associate(namespace, account, role string) Association {
	one := Association{ID: fmt.Sprintf("a-%d", len(w.Associations)+1), Namespace: namespace, Account: account, Role: role}
	w.Associations = slices.DeleteFunc(w.Associations, func(a Association) bool { return a.Namespace == namespace && a.Account == account })
	w.Associations = append(w.Associations, one)
	return one
}

// AssociatedRole returns the role of a service account's pods, or an empty text.
func (w *World) AssociatedRole(namespace, account string) string {
	for _, a := range w.Associations {
		if a.Namespace == namespace && a.Account == account {
			return a.Role
		}
	}
	return ""
}

func (a Association) object(cluster string) object {
	return object{"clusterName": cluster, "namespace": a.Namespace, "serviceAccount": a.Account, "associationId": a.ID}
}

func (w *World) listAssociations(_ context.Context, _ endpoint.Call, in association) (object, error) {
	list := []object{}
	for _, a := range w.Associations {
		if (in.Namespace == "" || a.Namespace == in.Namespace) && (in.ServiceAccount == "" ||
			a.Account == in.ServiceAccount) {
			list = append(list, a.object(in.Name))
		}
	}
	return object{"associations": list}, nil
}

func (w *World) describeAssociation(_ context.Context, _ endpoint.Call, in association) (object, error) {
	for _, a := range w.Associations {
		if a.ID == in.AssociationID {
			out := a.object(in.Name)
			out["roleArn"] = a.Role
			if a.Target != "" {
				out["targetRoleArn"] = a.Target
			}
			return object{"association": out}, nil
		}
	}
	return nil, &endpoint.Failure{Code: "ResourceNotFoundException",
		Message: "No association " + strings.TrimSpace(in.AssociationID), Status: http.StatusNotFound}
}
