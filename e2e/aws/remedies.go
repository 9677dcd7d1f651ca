//go:build linux

package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// remedies lists the calls of the commands that preflight and diagnose print, which
// moto carries out with these parameters.
var remedies = map[string]string{
	"ec2:AllocateAddress": "Domain", "ec2:AssociateAddress": "InstanceId AllocationId",
	"ec2:AssociateDhcpOptions": "VpcId DhcpOptionsId", "ec2:CreateDhcpOptions": "DhcpConfiguration",
	"ec2:AssociateIamInstanceProfile":     "InstanceId IamInstanceProfile",
	"ec2:AssociateVpcCidrBlock":           "VpcId AmazonProvidedIpv6CidrBlock",
	"ec2:AttachInternetGateway":           "InternetGatewayId VpcId",
	"ec2:AuthorizeSecurityGroupEgress":    "GroupId IpPermissions",
	"ec2:CreateEgressOnlyInternetGateway": "VpcId", "ec2:CreateNatGateway": "SubnetId AllocationId ClientToken",
	"ec2:CreateLaunchTemplateVersion":       "LaunchTemplateId SourceVersion LaunchTemplateData ClientToken",
	"ec2:CreateNetworkAclEntry":             "NetworkAclId Egress RuleNumber Protocol PortRange CidrBlock Ipv6CidrBlock RuleAction",
	"ec2:CreateRoute":                       "RouteTableId DestinationCidrBlock DestinationIpv6CidrBlock EgressOnlyInternetGatewayId NatGatewayId GatewayId",
	"ec2:CreateVpcEndpoint":                 "VpcId VpcEndpointType ServiceName PrivateDnsEnabled RouteTableId SubnetId SecurityGroupId",
	"ec2:DescribeTags":                      "Filter",
	"ec2:DescribeKeyPairs":                  "Filter",
	"ec2:DescribeTransitGatewayAttachments": "Filter",
	"ec2:ModifySubnetAttribute":             "SubnetId AssignIpv6AddressOnCreation MapPublicIpOnLaunch",
	"ec2:ModifyVpcAttribute":                "VpcId EnableDnsSupport EnableDnsHostnames",
	"ec2:ModifyVpcEndpoint":                 "VpcEndpointId AddRouteTableId PolicyDocument",
	"ec2:ReplaceRoute":                      "RouteTableId DestinationCidrBlock DestinationIpv6CidrBlock EgressOnlyInternetGatewayId NatGatewayId GatewayId",
	"ec2:StartInstances":                    "InstanceId",
	"ec2:DeleteVpc":                         "VpcId",
	"ec2:CreateSubnet":                      "VpcId AvailabilityZone CidrBlock Ipv6CidrBlock TagSpecification",
	"ec2:DeleteSubnet":                      "SubnetId",
	"ec2:CreateInternetGateway":             "TagSpecification", "ec2:DeleteInternetGateway": "InternetGatewayId",
	"ec2:DetachInternetGateway": "InternetGatewayId VpcId", "ec2:DescribeInternetGateways": "InternetGatewayId Filter",
	"ec2:DescribeAvailabilityZones": "Filter", "ec2:DeleteLaunchTemplate": "LaunchTemplateId",
	"eks:DeleteNodegroup":       "",
	"iam:DeleteInstanceProfile": "InstanceProfileName", "iam:DeleteRole": "RoleName", "iam:DetachRolePolicy": "RoleName PolicyArn",
	"iam:DeletePolicy": "PolicyArn", "iam:ListPolicies": "Scope PathPrefix",
	"iam:ListInstanceProfiles": "", "iam:RemoveRoleFromInstanceProfile": "InstanceProfileName RoleName", "ssm:DeleteParameter": "Name",
	"iam:AddClientIDToOpenIDConnectProvider": "OpenIDConnectProviderArn ClientID",
	"iam:CreateOpenIDConnectProvider":        "Url ClientIDList", "iam:ListOpenIDConnectProviders": "", "iam:ListRoles": "PathPrefix",
	"kms:CreateGrant": "KeyId GranteePrincipal Operations",
}

func (w *World) listAccessEntries(_ string, in eksIn) (object, error) {
	return object{"accessEntries": append([]string{}, slices.Sorted(maps.Keys(w.Entries))...)}, w.entriesCount(in.Name)
}

// spotRole makes the role of EC2 Spot. moto gives it another name.
func (w *World) spotRole() error {
	_, err := w.try(cmp.Or(w.Region, Region), "iam:CreateRole", "RoleName", "AWSServiceRoleForEC2Spot", "Path",
		"/aws-service-role/spot.amazonaws.com/",
		"AssumeRolePolicyDocument", strings.Replace(ec2Trust, "ec2.", "spot.", 1))
	return err
}

type serviceRole struct {
	Name string `xml:"Role>RoleName"`
}

// createServiceLinkedRole knows one service
// (https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateServiceLinkedRole.html).
func (w *World) createServiceLinkedRole(_ context.Context, _ endpoint.Call, in struct {
	Service string `query:"AWSServiceName"`
}) (out serviceRole, err error) {
	if in.Service != "spot.amazonaws.com" {
		return out, endpoint.Fail("InvalidInput", "The double has no role of %s.", in.Service)
	}
	out.Name = "AWSServiceRoleForEC2Spot"
	return out, w.spotRole()
}

// updated is EKS's response to a change.
func updated(kind string) object {
	return object{"update": object{"id": "u-1", "status": "InProgress", "type": kind}}
}

// updateCluster changes how the endpoint can be reached. What the call leaves out
// stays.
func (w *World) updateCluster(_ string, in struct {
	Name  string `json:"name"`
	Token string `json:"clientRequestToken"`
	VPC   struct {
		Private *bool `json:"endpointPrivateAccess"`
	} `json:"resourcesVpcConfig"`
}) (object, error) {
	all, known := w.Clusters[in.Name]["resourcesVpcConfig"].(object)
	if !known || in.VPC.Private == nil {
		return nil, missingResource("No cluster found for name: " + in.Name + ".")
	}
	all["endpointPrivateAccess"] = *in.VPC.Private
	return updated("EndpointAccessUpdate"), nil
}

// updateNodegroup changes the sizes of a node group. What the call leaves out stays.
func (w *World) updateNodegroup(_ string, in struct {
	groupIn
	Token   string         `json:"clientRequestToken"`
	Scaling map[string]any `json:"scalingConfig"`
}) (object, error) {
	group, known := w.NodeGroups[in.Group]
	if !known {
		return nil, missingResource("No node group found for name: " + in.Group + ".")
	}
	group["scalingConfig"] = in.Scaling
	return updated("ConfigUpdate"), nil
}

// byKeyID returns an action of KMS for a key's ARN. moto crashes unless the key has
// its ID.
func (w *World) byKeyID(ctx context.Context, protocol endpoint.Protocol, call endpoint.Call) (any, error) {
	call.Body = keyARN.ReplaceAllString(call.Body, "")
	return w.forwarded([]string{"KeyId"})(ctx, protocol, call)
}

var keyARN = regexp.MustCompile(`arn:aws[a-z-]*:kms:[^"]*:key/`)

func (w *World) enableImage(region string, in imageIn) (done, error) {
	i, err := w.ownImage(region, in.ID)
	if err != nil {
		return done{}, err
	}
	i.State = "available"
	return done{true}, nil
}

var metadataField = map[string]*regexp.Regexp{
	"endpoint": regexp.MustCompile(`<httpEndpoint>\w+<`), "tokens": regexp.MustCompile(`<httpTokens>\w+<`), "hops": regexp.MustCompile(`<httpPutResponseHopLimit>\d+<`),
}

// modifyMetadata changes the options of an instance's metadata service that the call
// names.
func (w *World) modifyMetadata(_ string, in struct {
	ID       string `query:"InstanceId"`
	Endpoint string `query:"HttpEndpoint"`
	Tokens   string `query:"HttpTokens"`
	HopLimit int    `query:"HttpPutResponseHopLimit"`
}) (done, error) {
	id := w.names.in(in.ID)
	text, known := w.metadata[id]
	if !known {
		return done{}, endpoint.Fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", in.ID)
	}
	for field, value := range map[string]string{"endpoint": in.Endpoint, "tokens": in.Tokens, "hops": fmt.Sprint(in.HopLimit)} {
		if value != "" && value != "0" {
			name, _, _ := strings.Cut(metadataField[field].String(), ">")
			text = metadataField[field].ReplaceAllString(text, name+">"+value+"<")
		}
	}
	w.metadata[id] = text
	return done{true}, nil
}

func (w *World) deprecate(region string, in imageIn) (done, error) {
	i, err := w.ownImage(region, in.ID)
	if err != nil {
		return done{}, err
	}
	if _, err := time.Parse(time.RFC3339, in.At); err != nil {
		return done{}, endpoint.Fail("InvalidParameterValue", "DeprecateAt '%s'", in.At)
	}
	i.Deprecated = in.At
	return done{true}, nil
}

// shellTime is how long a script may take. The AWS CLI needs a second for each
// call, and more on a machine under load.
const shellTime = 5 * time.Minute

// Shell runs a script with sh and the real AWS CLI against the world, and returns
// the output of both streams. The script ends at the first command that fails.
// Files, by name, are in its working folder "/tmp", which is empty otherwise. The
// script runs in moto's root, with a root file system that it cannot change.
func (w *World) Shell(script string, files map[string]string) (string, error) {
	w.t.Helper()
	root := os.Getenv(alone)
	if root == "" {
		var err error
		if root, err = base.Moto(w.ctx, os.Stderr); err != nil {
			return "", err
		}
	}
	defer w.Behave(w.front.Behaviour)
	w.Prompt("the commands are a person's, who repeats what fails")
	server := httptest.NewServer(w)
	defer server.Close()
	ctx, cancel := context.WithTimeout(w.ctx, shellTime)
	defer cancel()
	var prepare strings.Builder
	// The tree is shared. A private mount hides what the script writes.
	prepare.WriteString("set -e\nmount --make-rprivate /\nmount --rbind \"$0\" \"$0\"\nmount -t tmpfs tmpfs \"$0/tmp\"\nmount -o remount,bind,ro \"$0\"\n")
	prepare.WriteString("cat > \"$0/tmp/.script\"\n")
	for name, text := range files {
		fmt.Fprintf(&prepare, "printf %%s %s > \"$0/tmp/%s\"\n", "'"+strings.ReplaceAll(text, "'", `'\''`)+"'", name)
	}
	prepare.WriteString("exec chroot \"$0\" /bin/sh -c 'cd /tmp && exec sh -e .script'\n")
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", prepare.String(), root)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "AWS_ENDPOINT_URL=" + server.URL, "AWS_REGION=" + w.region(), "AWS_ACCESS_KEY_ID=" + AccessKey,
		"AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true", "AWS_ENDPOINT_URL_EBS=" + w.ebsURL, "AWS_PAGER=", "AWS_MAX_ATTEMPTS=1", "PYTHONDONTWRITEBYTECODE=1",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("running %q: %w: %s", script, err, out)
	}
	return string(out), nil
}

func (w *World) region() string { return cmp.Or(w.Region, Region) }
