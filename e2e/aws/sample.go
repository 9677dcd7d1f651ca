package aws

import "encoding/base64"

// UserData joins the sample's cluster.
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
    certificateAuthority: Y2VydGlmaWNhdGU=
    cidr: 10.100.0.0/16
--X--
`

const ec2Trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// Sample is a world with a cluster and everything that a node needs to join it:
// the instance i-1 and the launch template nodes are right in every way.
func Sample() *World {
	owned := []Tag{{"kubernetes.io/cluster/my-cluster", "owned"}}
	all := []Permission{{Protocol: "-1", CIDRs: []string{"0.0.0.0/0"}}}
	inside := []Permission{{Protocol: "-1", Groups: []Group{{"sg-cluster"}}}}
	encoded := base64.StdEncoding.EncodeToString([]byte(UserData))
	drive := func(id string) []Drive { return []Drive{{"/dev/xvda", id}} }
	w := &World{
		Clusters: map[string]map[string]any{"my-cluster": {
			"name": "my-cluster", "arn": "arn:aws:eks:eu-west-1:123456789012:cluster/my-cluster", "status": "ACTIVE", "version": "1.34",
			"endpoint":             "https://ABC.gr7.eu-west-1.eks.amazonaws.com",
			"certificateAuthority": object{"data": "Y2VydGlmaWNhdGU="}, "roleArn": "arn:aws:iam::123456789012:role/cluster",
			"kubernetesNetworkConfig": object{"serviceIpv4Cidr": "10.100.0.0/16", "ipFamily": "ipv4"},
			"accessConfig":            object{"authenticationMode": "API_AND_CONFIG_MAP"},
			"resourcesVpcConfig": object{
				"vpcId": "vpc-1", "subnetIds": []string{"subnet-1", "subnet-2"}, "clusterSecurityGroupId": "sg-cluster",
				"securityGroupIds": []string{"sg-extra"}, "endpointPublicAccess": false, "endpointPrivateAccess": true,
			},
		}},
		Entries:  map[string]map[string]string{"my-cluster": {"arn:aws:iam::123456789012:role/node": "EC2_LINUX"}},
		Addons:   map[string]map[string]string{"my-cluster": {"vpc-cni": "v1.20.4-eksbuild.2", "kube-proxy": "v1.34.0-eksbuild.2", "coredns": "v1.12.1-eksbuild.2"}},
		Types:    map[string][]string{"m6i.large": {"x86_64"}, "m7g.large": {"arm64"}},
		Policies: map[string][]string{"node": {"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"}},
		Parameters: map[string]string{
			"/aws/service/debian/release/12/latest/amd64": "ami-22222222", "/aws/service/al2023": "ami-33333333",
		},
		Images: []Image{
			{ID: "ami-11111111", Name: "debian-12-amd64-20260101-1", Owner: "136693071363", State: "available", Architecture: "x86_64", Created: "2026-01-01T00:00:00.000Z", RootDevice: "/dev/xvda", RootType: "ebs", ENA: true},
			{ID: "ami-22222222", Name: "debian-12-amd64-20260301-1", Owner: "136693071363", State: "available", Architecture: "x86_64", Created: "2026-03-01T00:00:00.000Z", RootDevice: "/dev/xvda", RootType: "ebs", ENA: true},
			{ID: "ami-33333333", Name: "al2023-ami-minimal-2023.1-arm64", Owner: "137112412989", Alias: "amazon", State: "available", Architecture: "arm64", Created: "2026-02-01T00:00:00.000Z", RootDevice: "/dev/xvda", RootType: "ebs", ENA: true},
			{
				ID: "ami-0123456789abcdef0", Name: "node-1.34", Owner: Account, State: "available", Architecture: "x86_64", Created: "2026-04-01T00:00:00.000Z",
				RootDevice: "/dev/xvda", RootType: "ebs", ENA: true, Devices: drive("snap-1"),
				Tags: []Tag{{"eksnode:kubernetes-version", "1.34.4"}, {"eksnode:distro", "debian"}},
			},
		},
		Subnets: []Subnet{
			{ID: "subnet-1", VPC: "vpc-1", Zone: "eu-west-1a", CIDR: "10.0.1.0/24", Free: 200},
			{ID: "subnet-2", VPC: "vpc-1", Zone: "eu-west-1b", CIDR: "10.0.2.0/24", Free: 200},
		},
		Routes: []RouteTable{
			{VPC: "vpc-1", Subnets: []string{"subnet-1"}, Routes: []Route{{To: "10.0.0.0/16", Gateway: "local", State: "active"}, {To: "0.0.0.0/0", NAT: "nat-1", State: "active"}}},
			{VPC: "vpc-1", Main: true, Routes: []Route{{To: "0.0.0.0/0", NAT: "nat-1", State: "active"}}},
		},
		ACLs: []ACL{
			{ID: "acl-1", Subnets: []Association{{"subnet-1"}}, Entries: open()},
			{ID: "acl-2", Subnets: []Association{{"subnet-2"}}, Entries: open()},
		},
		Groups: []SecurityGroup{
			{ID: "sg-cluster", VPC: "vpc-1", Ingress: inside, Egress: all},
			{ID: "sg-extra", VPC: "vpc-1", Egress: all},
			{ID: "sg-node", VPC: "vpc-1", Egress: all},
		},
		VPCs:      []VPC{{ID: "vpc-1", DHCP: "dopt-1", CIDRs: []string{"10.0.0.0/16"}, Support: true, Hostnames: true}},
		DHCP:      []DHCP{{ID: "dopt-1"}},
		Profiles:  []Profile{{Name: "nodes", ARN: "arn:aws:iam::123456789012:instance-profile/nodes", Role: "node", RoleARN: "arn:aws:iam::123456789012:role/node", Path: "/", Trust: ec2Trust}},
		Snapshots: []string{"snap-1"},
		Instances: []Instance{{
			ID: "i-1", Image: "ami-0123456789abcdef0", Type: "m6i.large", Subnet: "subnet-1", Groups: []Group{{"sg-cluster"}},
			Profile: "arn:aws:iam::123456789012:instance-profile/nodes", Tokens: "required", HopLimit: 2, Tags: owned, UserData: encoded,
		}},
		Templates: []Template{{ID: "lt-1", Name: "nodes", Version: 1, Data: TemplateData{
			Image: "ami-0123456789abcdef0", Type: "m6i.large", Profile: "nodes", Groups: []string{"sg-cluster"}, Tokens: "required", UserData: encoded,
			Tags: []TagSpecification{{Kind: "instance", Tags: owned}},
		}}},
	}
	w.DHCP[0].Set("domain-name", "eu-west-1.compute.internal")
	w.DHCP[0].Set("domain-name-servers", "AmazonProvidedDNS")
	return w
}

// open are the entries of a VPC's default network ACL.
func open() []ACLEntry {
	return []ACLEntry{
		{Number: 100, Protocol: "-1", Action: "allow", CIDR: "0.0.0.0/0"}, {Number: 32767, Protocol: "-1", Action: "deny", CIDR: "0.0.0.0/0"},
		{Number: 100, Protocol: "-1", Action: "allow", Egress: true, CIDR: "0.0.0.0/0"}, {Number: 32767, Protocol: "-1", Action: "deny", Egress: true, CIDR: "0.0.0.0/0"},
	}
}
