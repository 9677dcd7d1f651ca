//go:build linux

package aws

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// This file is a supplement of ours: moto 5.1 has no access entries, add-ons and
// pod identity associations. The errors are those of EKS's API reference.

// setup are the calls that set a cluster up for nodes.
func (w *World) setup() map[string]endpoint.Action {
	return map[string]endpoint.Action{
		"ec2:CreateVpc": w.createVPC, "ec2:CreateLaunchTemplate": w.createTemplate,
		"eks:CreateCluster": endpoint.Handle(w.createCluster), "eks:CreateNodegroup": endpoint.Handle(w.createNodegroup), "eks:DeleteCluster": endpoint.Handle(w.deleteCluster),
		"eks:CreateAccessEntry": handle(w, w.createAccessEntry), "eks:DeleteAccessEntry": handle(w, w.deleteAccessEntry),
		"eks:CreateAddon": handle(w, w.createAddon), "eks:UpdateAddon": handle(w, w.updateAddon),
		"eks:CreatePodIdentityAssociation": handle(w, w.createAssociation),
		"eks:ListAccessEntries":            handle(w, w.listAccessEntries), "eks:UpdateClusterConfig": handle(w, w.updateCluster),
		"eks:UpdateNodegroupConfig": handle(w, w.updateNodegroup),
	}
}

// setupRoutes are the paths of those calls.
var setupRoutes = map[string]string{
	"POST /clusters": "CreateCluster", "DELETE /clusters/{name}": "DeleteCluster",
	"POST /clusters/{name}/node-groups": "CreateNodegroup", "DELETE /clusters/{name}/node-groups/{nodegroupName}": "DeleteNodegroup",
	"POST /clusters/{name}/access-entries":                            "CreateAccessEntry",
	"DELETE /clusters/{name}/access-entries/{principalArn}":           "DeleteAccessEntry",
	"POST /clusters/{name}/addons":                                    "CreateAddon",
	"POST /clusters/{name}/addons/{addonName}/update":                 "UpdateAddon",
	"POST /clusters/{name}/pod-identity-associations":                 "CreatePodIdentityAssociation",
	"GET /clusters/{name}/access-entries":                             "ListAccessEntries",
	"POST /clusters/{name}/update-config":                             "UpdateClusterConfig",
	"POST /clusters/{name}/node-groups/{nodegroupName}/update-config": "UpdateNodegroupConfig",
}

// createVPC gives the VPC what moto lacks: the region's default DHCP options, and with
// IPv6 the rule of its network ACL
// (https://docs.aws.amazon.com/vpc/latest/userguide/default-network-acl.html).
func (w *World) createVPC(ctx context.Context, protocol endpoint.Protocol, call endpoint.Call) (any, error) {
	known := []string{"CidrBlock", "AmazonProvidedIpv6CidrBlock", "TagSpecification"}
	answer, err := w.forwarded(known)(ctx, protocol, call)
	raw, written := answer.(*endpoint.Raw)
	if err != nil || !written || raw.Status != http.StatusOK {
		return answer, err
	}
	made, err := w.try(call.Region, "ec2:CreateDhcpOptions", "DhcpConfiguration.1.Key", "domain-name", "DhcpConfiguration.1.Value.1", call.Region+".compute.internal",
		"DhcpConfiguration.2.Key", "domain-name-servers", "DhcpConfiguration.2.Value.1", "AmazonProvidedDNS")
	if err != nil {
		return nil, err
	}
	vpc := first(raw.Body, "vpcId")
	options := first(made, "dhcpOptionsId")
	if _, err = w.try(call.Region, "ec2:AssociateDhcpOptions", "VpcId", vpc, "DhcpOptionsId", options); err != nil {
		return nil, err
	}
	if !bytes.Contains(raw.Body, []byte("<ipv6CidrBlock>")) {
		return raw, nil
	}
	list, err := w.try(call.Region, "ec2:DescribeNetworkAcls", "Filter.1.Name", "vpc-id", "Filter.1.Value.1", vpc)
	for _, egress := range []string{"true", "false"} {
		if err == nil {
			_, err = w.try(call.Region, "ec2:CreateNetworkAclEntry",
				"NetworkAclId", first(list, "networkAclId"), "RuleNumber", "101",
				"Protocol", "-1", "RuleAction", "allow", "Egress", egress, "Ipv6CidrBlock", "::/0")
		}
	}
	return raw, err
}

// first is the text of the first element of a name.
func first(text []byte, element string) string {
	return string(regexp.MustCompile(`<` + element + `>(.*?)<`).FindSubmatch(text)[1])
}

// createCluster adds what moto lacks and EKS makes: the VPC of the subnets, the cluster
// security group, and the add-ons.
func (w *World) createCluster(ctx context.Context, call endpoint.Call, in struct {
	Name    string         `json:"name"`
	Version string         `json:"version"`
	Token   string         `json:"clientRequestToken"`
	Role    string         `json:"roleArn"`
	Access  object         `json:"accessConfig"`
	Tags    map[string]any `json:"tags"`
	VPC     struct {
		Subnets []string `json:"subnetIds"`
	} `json:"resourcesVpcConfig"`
	Network struct {
		Family string `json:"ipFamily"`
	} `json:"kubernetesNetworkConfig"`
}) (any, error) {
	cluster, failure, err := w.kept(ctx, call, "cluster")
	if cluster == nil {
		return failure, err
	}
	of, err := w.try(call.Region, "ec2:DescribeSubnets", "SubnetId.1", in.VPC.Subnets[0])
	if err != nil {
		return nil, err
	}
	vpc := first(of, "vpcId")
	made, err := w.try(call.Region, "ec2:CreateSecurityGroup", "GroupName", "eks-cluster-sg-"+in.Name, "GroupDescription", "of EKS", "VpcId", vpc)
	if err != nil {
		return nil, err
	}
	group := first(made, "groupId")
	if _, err := w.try(call.Region, "ec2:AuthorizeSecurityGroupIngress", "GroupId", group, "IpPermissions.1.IpProtocol", "-1", "IpPermissions.1.Groups.1.GroupId", group); err != nil {
		return nil, err
	}
	network := object{"ipFamily": "ipv4", "serviceIpv4Cidr": "10.100.0.0/16"}
	if in.Network.Family == "ipv6" {
		network = object{"ipFamily": "ipv6", "serviceIpv6Cidr": "fd30:1234:5678::/108"}
		if !bytes.Contains(of, []byte("<ipv6CidrBlock>")) {
			return nil, endpoint.Fail("InvalidParameterException", "The subnet %s has no IPv6 CIDR block.", in.VPC.Subnets[0])
		}
	}
	w.Clusters[in.Name] = object{
		"accessConfig": in.Access, "certificateAuthority": object{"data": cmp.Or(w.Authority, CA)},
		"kubernetesNetworkConfig": network,
		"resourcesVpcConfig":      object{"vpcId": vpc, "clusterSecurityGroupId": group, "endpointPublicAccess": true},
	}
	if w.APIServer != "" {
		w.Clusters[in.Name]["endpoint"] = w.APIServer
	}
	w.addOns()
	cluster["kubernetesNetworkConfig"] = network
	return object{"cluster": cluster}, nil
}

// createNodegroup sets what EKS reports of a group whose launch template names an image:
// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html.
func (w *World) createNodegroup(ctx context.Context, call endpoint.Call, in struct {
	Cluster  string         `json:"name"`
	Name     string         `json:"nodegroupName"`
	Token    string         `json:"clientRequestToken"`
	Role     string         `json:"nodeRole"`
	Subnets  []string       `json:"subnets"`
	Scaling  object         `json:"scalingConfig"`
	Tags     map[string]any `json:"tags"`
	Template struct {
		ID      string `json:"id"`
		Version string `json:"version"`
	} `json:"launchTemplate"`
}) (any, error) {
	raw, err := w.forward(ctx, call)
	if err != nil || raw.Status != http.StatusOK {
		return raw, err
	}
	if w.NodeGroups == nil {
		w.NodeGroups = map[string]map[string]any{}
	}
	image := w.templates[in.Template.ID].Get("LaunchTemplateData.ImageId")
	w.NodeGroups[in.Name] = object{"amiType": "CUSTOM", "instanceTypes": []string{}, "releaseVersion": image}
	return raw, nil
}

// deleteCluster also deletes what EKS made with the cluster.
func (w *World) deleteCluster(ctx context.Context, call endpoint.Call, in eksIn) (any, error) {
	raw, err := w.forward(ctx, call)
	if err != nil || raw.Status != http.StatusOK {
		return raw, err
	}
	if config, made := w.Clusters[in.Name]["resourcesVpcConfig"].(object); made {
		_, err = w.try(call.Region, "ec2:DeleteSecurityGroup", "GroupId", fmt.Sprint(config["clusterSecurityGroupId"]))
	}
	delete(w.Clusters, in.Name)
	clear(w.Addons)
	clear(w.Entries)
	return raw, err
}

var roleForm = regexp.MustCompile(`^arn:aws[a-z-]*:iam::(\d{12}):role/.+$`)

// roleExists fails for a role that the account does not have, as EKS does.
func (w *World) roleExists(region, arn string) error {
	parts := roleForm.FindStringSubmatch(arn)
	if parts == nil || parts[1] != Account {
		return endpoint.Fail("InvalidParameterException", "The principalArn must be a role of the cluster's account: %s", arn)
	}
	name := regexp.MustCompile(`[^/]+$`).FindString(arn)
	raw, err := w.try(region, "iam:GetRole", "RoleName", name)
	if err != nil || !regexp.MustCompile(`<Arn>`+regexp.QuoteMeta(arn)+`</Arn>`).Match(raw) {
		return endpoint.Fail("InvalidParameterException", "The specified principalArn is invalid: %s", arn)
	}
	return nil
}

func (w *World) createAccessEntry(region string, in struct {
	Name      string   `json:"name"`
	Principal string   `json:"principalArn"`
	Type      string   `json:"type"`
	Token     string   `json:"clientRequestToken"`
	Groups    []string `json:"kubernetesGroups"`
}) (object, error) {
	if err := w.entriesCount(in.Name); err != nil {
		return nil, err
	}
	if _, there := w.Entries[in.Principal]; there {
		return nil, &endpoint.Failure{Code: "ResourceInUseException", Message: "The specified access entry resource is already in use on this cluster.", Status: http.StatusConflict}
	}
	if err := w.roleExists(region, in.Principal); err != nil {
		return nil, err
	}
	w.Entries[in.Principal] = in.Type
	return object{"accessEntry": object{"clusterName": in.Name, "principalArn": in.Principal, "type": in.Type}}, nil
}

// entriesCount fails when the cluster's authentication mode ignores entries.
func (w *World) entriesCount(cluster string) error {
	if access, said := w.Clusters[cluster]["accessConfig"].(object); said && access["authenticationMode"] != "CONFIG_MAP" {
		return nil
	}
	return &endpoint.Failure{
		Code: "InvalidRequestException", Status: http.StatusBadRequest,
		Message: "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation.",
	}
}

func (w *World) deleteAccessEntry(_ string, in eksIn) (object, error) {
	if _, there := w.Entries[in.Principal]; !there {
		return nil, missingResource("The specified principalArn could not be found.")
	}
	delete(w.Entries, in.Principal)
	return object{}, nil
}

func missingResource(message string) error {
	return &endpoint.Failure{Code: "ResourceNotFoundException", Message: message, Status: http.StatusNotFound}
}

func (w *World) createAddon(_ string, in struct {
	Cluster string `json:"name"`
	Addon   string `json:"addonName"`
	Token   string `json:"clientRequestToken"`
}) (object, error) {
	if w.Addons[in.Addon] != nil {
		return nil, &endpoint.Failure{Code: "ResourceInUseException", Message: "Addon already exists.", Status: http.StatusConflict}
	}
	w.Addons[in.Addon] = object{"addonVersion": "v1.0.0-eksbuild.1"}
	return object{"addon": object{"addonName": in.Addon, "clusterName": in.Cluster, "status": "CREATING"}}, nil
}

// updateAddon replaces what the call has. An update without values resets them, which
// is the worst that EKS could do.
func (w *World) updateAddon(region string, in struct {
	Cluster       string `json:"name"`
	Addon         string `json:"addonName"`
	Token         string `json:"clientRequestToken"`
	Configuration string `json:"configurationValues"`
	Conflicts     string `json:"resolveConflicts"`
	Associations  []struct {
		Account string `json:"serviceAccount"`
		Role    string `json:"roleArn"`
	} `json:"podIdentityAssociations"`
}) (object, error) {
	addon := w.Addons[in.Addon]
	switch {
	case addon == nil:
		return nil, missingResource("No addon: " + in.Addon)
	case in.Conflicts != "PRESERVE":
		return nil, endpoint.Refuse("an update of the add-on %s that may replace values", in.Addon)
	}
	for _, a := range in.Associations {
		if err := w.roleExists(region, a.Role); err != nil {
			return nil, err
		}
		w.Associate("kube-system", a.Account, a.Role)
	}
	addon["configurationValues"] = in.Configuration
	delete(addon, "serviceAccountRoleArn")
	return updated("AddonUpdate"), nil
}

// association are the parameters of the calls for pod identity.
type association struct {
	Cluster   string `json:"name"`
	Namespace string `json:"namespace"`
	Account   string `json:"serviceAccount"`
	Role      string `json:"roleArn"`
	Token     string `json:"clientRequestToken"`
	ID        string `json:"associationId"`
}

func (w *World) createAssociation(region string, in association) (object, error) {
	name := in.Namespace + "/" + in.Account
	if w.AssociatedRole(in.Namespace, in.Account) != "" {
		return nil, &endpoint.Failure{Code: "ResourceInUseException", Message: "Association already exists: " + name, Status: http.StatusConflict}
	}
	if err := w.roleExists(region, in.Role); err != nil {
		return nil, err
	}
	one := w.Associate(in.Namespace, in.Account, in.Role).object(in.Cluster)
	one["roleArn"] = in.Role
	return object{"association": one}, nil
}

// eksIn has the parameters of EKS's actions.
type eksIn struct {
	Name      string `json:"name"`
	Principal string `json:"principalArn"`
	Addon     string `json:"addonName"`
}

type object = map[string]any

// kept returns the object that moto keeps under a name, or moto's error response.
func (w *World) kept(ctx context.Context, call endpoint.Call, name string) (object, any, error) {
	raw, err := w.forward(ctx, call)
	if err != nil || raw.Status != http.StatusOK {
		return nil, raw, err
	}
	var out map[string]object
	if err := json.Unmarshal(raw.Body, &out); err != nil {
		return nil, nil, fmt.Errorf("reading moto's %s: %w", name, err)
	}
	if out[name] == nil {
		return nil, nil, fmt.Errorf("moto's answer has no %s", name)
	}
	return out[name], nil, nil
}

// describeCluster returns moto's cluster with the world's replacements. moto
// keeps no network, no cluster security group and no authentication mode.
func (w *World) describeCluster(ctx context.Context, call endpoint.Call, in eksIn) (any, error) {
	cluster, failure, err := w.kept(ctx, call, "cluster")
	if cluster == nil {
		return failure, err
	}
	for key, value := range w.Clusters[in.Name] {
		inner, nested := value.(object)
		old, both := cluster[key].(object)
		switch {
		case value == nil:
			delete(cluster, key)
		case nested && both:
			maps.Copy(old, inner)
		default:
			cluster[key] = value
		}
	}
	return object{"cluster": cluster}, nil
}

func (w *World) describeAccessEntry(_ context.Context, _ endpoint.Call, in eksIn) (object, error) {
	if err := w.entriesCount(in.Name); err != nil {
		return nil, err
	}
	kind, there := w.Entries[in.Principal]
	if !there {
		return nil, missingResource("The specified principalArn could not be found.")
	}
	return object{"accessEntry": object{
		"clusterName": in.Name, "principalArn": in.Principal, "type": kind, "kubernetesGroups": []string{"system:nodes"},
	}}, nil
}

func (w *World) listAddons(context.Context, endpoint.Call, eksIn) (object, error) {
	return object{"addons": slices.Sorted(maps.Keys(w.Addons))}, nil
}

func (w *World) describeAddon(_ context.Context, _ endpoint.Call, in eksIn) (object, error) {
	out := object{"addonName": in.Addon, "status": "ACTIVE"}
	maps.Copy(out, w.Addons[in.Addon])
	return object{"addon": out}, nil
}

type credentials struct {
	Key     string `xml:"AccessKeyId"`
	Secret  string `xml:"SecretAccessKey"`
	Token   string `xml:"SessionToken"`
	Expires string `xml:"Expiration"`
}

type assumeRoleOut struct{ Credentials credentials }

// assumeRole returns the account's own access key. moto would return a key of
// the role's account, which is empty.
func (w *World) assumeRole(_ context.Context, _ endpoint.Call, in struct {
	Role    string `query:"RoleArn"`
	Session string `query:"RoleSessionName"`
	ID      string `query:"ExternalId"`
	Seconds int    `query:"DurationSeconds"`
}) (assumeRoleOut, error) {
	return assumeRoleOut{credentials{AccessKey, "secret", "token of " + in.Role, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}}, nil
}
