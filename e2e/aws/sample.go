//go:build linux

package aws

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// CA is the certificate authority of the sample's cluster, a real certificate.
const CA = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJnakNDQVNlZ0F3SUJBZ0lVUC91RGRxQ1krSFJDWEJZV1p1djF5c3VNUllvd0NnWUlLb1pJemowRUF3SXcKRlRFVE1CRUdBMVVFQXd3S2EzVmlaWEp1WlhSbGN6QWdGdzB5TmpFeE1qSXlNVEE1TWpKYUdBOHlNVEkyTVRBeQpPVEl4TURreU1sb3dGVEVUTUJFR0ExVUVBd3dLYTNWaVpYSnVaWFJsY3pCWk1CTUdCeXFHU000OUFnRUdDQ3FHClNNNDlBd0VIQTBJQUJBRzU5cm95OC9TV2ZhZFkvanRDWXpWS2t4UXQ2N1VWOTNqejVSZFNKQldySldsbnF3Z1MKOEVsVFBvWTBRb0lCSm84MUMvRXl5THNsc3dQVCt4OUJoSCtqVXpCUk1CMEdBMVVkRGdRV0JCUXdFa3BtMHZKRgpYSnd6VkpicjlNamU1TDZITURBZkJnTlZIU01FR0RBV2dCUXdFa3BtMHZKRlhKd3pWSmJyOU1qZTVMNkhNREFQCkJnTlZIUk1CQWY4RUJUQURBUUgvTUFvR0NDcUdTTTQ5QkFNQ0Ewa0FNRVlDSVFEQ3MwdTh2aGNSZ0dWdFN4VTkKeThKMGxJSDRJY0U1UFdDbG9VRXcycHNyVUFJaEFONDNlZUh0U2M0N3g3VXprbEZ0cE1BT3JLdzV1SlFOdFNpRgpzWjhOdFRZeAotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg=="

// UserData joins a node to the sample's cluster.
const UserData = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="X"

--X
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: my-cluster
    apiServerEndpoint: https://ABC.gr7.eu-west-1.eks.amazonaws.com
    certificateAuthority: ` + CA + `
    cidr: 10.100.0.0/16
--X--
`

const (
	// NodeImage is the sample's own image.
	NodeImage = "ami-0123456789abcdef0"
	// OldDebian, Debian and Amazon are images of publishers.
	OldDebian, Debian, Amazon = "ami-11111111", "ami-22222222", "ami-33333333"
	// RegistryPassword is the password of moto's ECR for the user of its
	// registries.
	RegistryPassword = Account + "-auth-token"
	// NodeRole is the ARN of the nodes' role.
	NodeRole = "arn:aws:iam::" + Account + ":role/node"
)

const (
	ec2Trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	clusters = "kubernetes.io/cluster/my-cluster"
)

// Sample returns a world with a cluster and everything that a node needs to
// join. The instance i-1 and the launch template nodes are correct in every
// respect.
func Sample(t *testing.T) *World {
	t.Helper()
	if sampled == nil {
		server, err := started()
		require.NoError(t, err)
		w := newWorld(t, server, true)
		w.publish()
		w.fields()
		w.network()
		w.role()
		w.cluster()
		w.nodes()
		sampled = w
	}
	w := newWorld(t, sampled.moto, false)
	w.names, w.metadata = sampled.names.clone(), maps.Clone(sampled.metadata)
	w.publish()
	w.fields()
	return w
}

// sampled is the world that all samples copy.
var sampled *World

// publish adds the publishers' images and a node image.
func (w *World) publish() {
	node := NewImage(NodeImage, "node-1.34", Account, "2026-04-01T00:00:00.000Z")
	node.Devices = []Drive{{Name: "/dev/xvda", Snapshot: "snap-1"}}
	node.Tags = []Tag{{"eksnode:kubernetes-version", "1.34.4"}, {"eksnode:distro", "debian"}}
	amazon := NewImage(Amazon, "al2023-ami-minimal-2023.1-kernel-6.1-arm64", "137112412989", "2026-02-01T00:00:00.000Z")
	amazon.Alias, amazon.Architecture = "amazon", "arm64"
	w.Images = []*Image{
		NewImage(OldDebian, "debian-12-amd64-20260101-1", "136693071363", "2026-01-01T00:00:00.000Z"),
		NewImage(Debian, "debian-12-amd64-20260301-1", "136693071363", "2026-03-01T00:00:00.000Z"), amazon, node,
	}
	w.Snapshots = []*Snapshot{{ID: "snap-1", State: "completed", Owner: Account}}
	w.Published = map[string]string{"/aws/service/debian/release/12/latest/amd64": Debian, "/aws/service/al2023": Amazon}
}

// network makes a private network with two subnets. The second subnet uses the
// main route table. A NAT gateway is in a third subnet, which is public.
func (w *World) network() {
	w.Name("vpc-1", w.Do("ec2:CreateVpc", "CidrBlock", "10.0.0.0/16"), `<vpcId>(.*?)<`)
	w.Do("ec2:ModifyVpcAttribute", "VpcId", "vpc-1", "EnableDnsHostnames.Value", "true")
	w.DHCP("eu-west-1.compute.internal", "AmazonProvidedDNS")
	for i, zone := range []string{"a", "b"} {
		n := strconv.Itoa(i + 1)
		w.Name("subnet-"+n, w.Do("ec2:CreateSubnet", "VpcId", "vpc-1", "CidrBlock", "10.0."+n+".0/24", "AvailabilityZone", Region+zone), `<subnetId>(.*?)<`)
		w.Name("acl-"+n, w.Do("ec2:CreateNetworkAcl", "VpcId", "vpc-1"), `<networkAclId>(.*?)<`)
		for _, egress := range []string{"true", "false"} {
			for number, does := range map[string]string{"100": "allow", "32767": "deny"} { // AWS adds the closing entry itself
				w.Do("ec2:CreateNetworkAclEntry", "NetworkAclId", "acl-"+n, "RuleNumber", number, "Protocol", "-1", "RuleAction", does, "Egress", egress, "CidrBlock", "0.0.0.0/0")
			}
		}
		of := w.Do("ec2:DescribeNetworkAcls", "Filter.1.Name", "association.subnet-id", "Filter.1.Value.1", "subnet-"+n)
		w.Name("aclassoc-"+n, of, `<networkAclAssociationId>(\S+?)</networkAclAssociationId>\s*<networkAclId>\S+</networkAclId>\s*<subnetId>subnet-`+n+`<`)
		w.Do("ec2:ReplaceNetworkAclAssociation", "AssociationId", "aclassoc-"+n, "NetworkAclId", "acl-"+n)
	}
	w.public()
	w.NAT("nat-1", "subnet-3")
	w.Name("rtb-main", w.Do("ec2:DescribeRouteTables", "Filter.1.Name", "vpc-id", "Filter.1.Value.1", "vpc-1"), `<routeTableId>(.*?)<`)
	w.Name("rtb-1", w.Do("ec2:CreateRouteTable", "VpcId", "vpc-1"), `<routeTableId>(.*?)<`)
	w.Do("ec2:AssociateRouteTable", "RouteTableId", "rtb-1", "SubnetId", "subnet-1")
	for _, table := range []string{"rtb-main", "rtb-1"} {
		w.Do("ec2:CreateRoute", "RouteTableId", table, "DestinationCidrBlock", "0.0.0.0/0", "NatGatewayId", "nat-1")
	}
	for _, name := range []string{"sg-cluster", "sg-extra", "sg-node"} {
		w.Name(name, w.Do("ec2:CreateSecurityGroup", "GroupName", name[3:], "GroupDescription", "d", "VpcId", "vpc-1"), `<groupId>(.*?)<`)
	}
	w.Do("ec2:AuthorizeSecurityGroupIngress", "GroupId", "sg-cluster", "IpPermissions.1.IpProtocol", "-1", "IpPermissions.1.Groups.1.GroupId", "sg-cluster")
}

// public makes the sample's public subnet, with an internet gateway.
func (w *World) public() {
	w.Name("subnet-3", w.Do("ec2:CreateSubnet", "VpcId", "vpc-1", "CidrBlock", "10.0.3.0/24", "AvailabilityZone", Region+"a"), `<subnetId>(.*?)<`)
	w.Name("igw-1", w.Do("ec2:CreateInternetGateway"), `<internetGatewayId>(.*?)<`)
	w.Do("ec2:AttachInternetGateway", "InternetGatewayId", "igw-1", "VpcId", "vpc-1")
	w.Name("rtb-public", w.Do("ec2:CreateRouteTable", "VpcId", "vpc-1"), `<routeTableId>(.*?)<`)
	w.Do("ec2:AssociateRouteTable", "RouteTableId", "rtb-public", "SubnetId", "subnet-3")
	w.Do("ec2:CreateRoute", "RouteTableId", "rtb-public", "DestinationCidrBlock", "0.0.0.0/0", "GatewayId", "igw-1")
}

// DHCP gives the sample's network other DHCP options.
func (w *World) DHCP(domain, server string) {
	w.t.Helper()
	w.Name("dopt-1", w.Do("ec2:CreateDhcpOptions", "DhcpConfiguration.1.Key", "domain-name", "DhcpConfiguration.1.Value.1", domain,
		"DhcpConfiguration.2.Key", "domain-name-servers", "DhcpConfiguration.2.Value.1", server), `<dhcpOptionsId>(.*?)<`)
	w.Do("ec2:AssociateDhcpOptions", "VpcId", "vpc-1", "DhcpOptionsId", "dopt-1")
}

func (w *World) role() {
	w.Do("iam:CreateRole", "RoleName", "node", "AssumeRolePolicyDocument", ec2Trust)
	require.NoError(w.t, w.spotRole())
	for _, policy := range []string{"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"} {
		w.Do("iam:AttachRolePolicy", "RoleName", "node", "PolicyArn", "arn:aws:iam::aws:policy/"+policy)
	}
	w.Do("iam:CreateInstanceProfile", "InstanceProfileName", "nodes")
	w.Do("iam:AddRoleToInstanceProfile", "InstanceProfileName", "nodes", "RoleName", "node")
}

func (w *World) cluster() {
	made := w.Do("eks:POST /clusters", `{"name":"my-cluster","version":"1.34","roleArn":"arn:aws:iam::`+Account+`:role/cluster",
		"resourcesVpcConfig":{"subnetIds":["subnet-1","subnet-2"],"securityGroupIds":["sg-extra"],"endpointPublicAccess":false,"endpointPrivateAccess":true},
		"kubernetesNetworkConfig":{"serviceIpv4Cidr":"10.100.0.0/16","ipFamily":"ipv4"}}`)
	var out struct {
		Cluster struct{ CertificateAuthority struct{ Data string } }
	}
	require.NoError(w.t, json.Unmarshal(made, &out))
	w.names.add(CA, out.Cluster.CertificateAuthority.Data)
	w.Name("https://ABC.gr7.eu-west-1.eks.amazonaws.com", made, `"endpoint": *"(.*?)"`)
}

// fields sets the World's fields that moto does not have.
func (w *World) fields() {
	w.Clusters["my-cluster"] = object{
		"accessConfig":            object{"authenticationMode": "API_AND_CONFIG_MAP"},
		"kubernetesNetworkConfig": object{"ipFamily": "ipv4"},
		"resourcesVpcConfig":      object{"vpcId": "vpc-1", "clusterSecurityGroupId": "sg-cluster"},
	}
	w.Entries[NodeRole] = "EC2_LINUX"
	w.addOns()
}

// addOns are those of every new cluster.
func (w *World) addOns() {
	for name, version := range map[string]string{"vpc-cni": "v1.20.4-eksbuild.2", "kube-proxy": "v1.34.0-eksbuild.2", "coredns": "v1.12.1-eksbuild.2"} {
		w.Addons[name] = object{"addonVersion": version}
	}
}

// nodes makes the instance and the launch template.
func (w *World) nodes() {
	encoded := base64.StdEncoding.EncodeToString([]byte(UserData))
	w.Name("i-1", w.Do("ec2:RunInstances", "ImageId", NodeImage, "MinCount", "1", "MaxCount", "1", "InstanceType", "m6i.large", "SubnetId", "subnet-1",
		"SecurityGroupId.1", "sg-cluster", "IamInstanceProfile.Name", "nodes", "UserData", encoded,
		"MetadataOptions.HttpTokens", "required", "MetadataOptions.HttpPutResponseHopLimit", "2",
		"TagSpecification.1.ResourceType", "instance", "TagSpecification.1.Tag.1.Key", clusters, "TagSpecification.1.Tag.1.Value", "owned"), `<instanceId>(.*?)<`)
	w.Name("lt-1", w.Do("ec2:CreateLaunchTemplate", append([]string{"LaunchTemplateName", "nodes"}, launchData(NodeImage)...)...), `<launchTemplateId>(.*?)<`)
}

// launchData returns the launch template data of the sample's nodes with an
// image.
func launchData(image string) []string {
	var all []string
	for name, value := range map[string]string{
		"ImageId": image, "InstanceType": "m6i.large", "IamInstanceProfile.Name": "nodes", "SecurityGroupId.1": "sg-cluster",
		"MetadataOptions.HttpTokens": "required", "UserData": base64.StdEncoding.EncodeToString([]byte(UserData)),
		"TagSpecification.1.ResourceType": "instance", "TagSpecification.1.Tag.1.Key": clusters, "TagSpecification.1.Tag.1.Value": "owned",
	} {
		all = append(all, "LaunchTemplateData."+name, value)
	}
	return all
}

// Relaunch replaces the template nodes by one whose only version names another
// image, and has further data as parameters of EC2.
func (w *World) Relaunch(image string, data ...string) {
	w.t.Helper()
	w.Do("ec2:DeleteLaunchTemplate", "LaunchTemplateName", "nodes")
	w.Name("lt-1", w.Do("ec2:CreateLaunchTemplate", slices.Concat([]string{"LaunchTemplateName", "nodes"}, launchData(image), data)...), `<launchTemplateId>(.*?)<`)
}

// Template makes a launch template with one version for each image. The first
// version is the default.
func (w *World) Template(name, called string, images ...string) {
	w.t.Helper()
	for i, image := range images {
		action, parameters := "ec2:CreateLaunchTemplateVersion", []string{"LaunchTemplateName", called, "LaunchTemplateData.ImageId", image}
		if i == 0 {
			w.Name(name, w.Do("ec2:CreateLaunchTemplate", parameters...), `<launchTemplateId>(.*?)<`)
			continue
		}
		w.Do(action, parameters...)
	}
}

// Launch runs an instance of an image and gives it a name.
func (w *World) Launch(name, image string) {
	w.t.Helper()
	w.Name(name, w.Do("ec2:RunInstances", "ImageId", image, "MinCount", "1", "MaxCount", "1", "InstanceType", "m6i.large"), `<instanceId>(.*?)<`)
}

// Group makes an Auto Scaling group of a launch template, by id or name.
func (w *World) Group(name string, parameters ...string) {
	w.t.Helper()
	w.Do("autoscaling:CreateAutoScalingGroup", append([]string{
		"AutoScalingGroupName", name, "MinSize", "0", "MaxSize", "0", "AvailabilityZones.member.1", fmt.Sprint(Region, "a"),
	}, parameters...)...)
}
