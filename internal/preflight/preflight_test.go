package preflight

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
)

// Each check fails in its case, and passes without the change.
func TestEachCheckFailsAndPasses(t *testing.T) {
	role := "arn:aws:iam::123456789012:role/node"
	auth := func(arn, username, groups string) []byte {
		return []byte("kind: ConfigMap\ndata:\n  mapRoles: |\n    - rolearn: " + arn + "\n      username: " + username + "\n      groups: [" + groups + "]\n")
	}
	const nodeName = "system:node:{{EC2PrivateDNSName}}"
	merge := "kubectl get configmap aws-auth -n kube-system -o yaml | eksnode manifests --cluster my-cluster --role " + role + " --only aws-auth --aws-auth - | kubectl apply -f -"
	mode := func(name string) func(*facts) {
		return func(f *facts) {
			f.cluster.value.AuthenticationMode = name
			if name == clustersetup.ConfigMap {
				f.entry.value = awsapi.AccessEntry{}
			}
		}
	}
	wrongAuth := func(arn, username, groups string) func(*facts) {
		return func(f *facts) {
			mode("CONFIG_MAP")(f)
			f.target.AWSAuth = auth(arn, username, groups)
		}
	}
	userData := func(old, new string) func(*facts) {
		return func(f *facts) { say(f, strings.Replace(joining, old, new, 1)) }
	}
	byID := userData("  cluster:\n", "  featureGates: {InstanceIdNodeName: true}\n  cluster:\n")
	refuse := func(actions ...string) func(*facts) { return func(f *facts) { f.simulated = lacking(f, actions...) } }
	for _, c := range []checkCase{
		{"cluster", "FAIL", func(f *facts) { f.cluster.value.Status = "CREATING" }, "the cluster is CREATING", "aws eks wait cluster-active --name my-cluster"},
		{"cluster", "FAIL", func(f *facts) { f.cluster.value.Endpoint = "" }, "EKS returned no endpoint", "aws eks describe-cluster --name my-cluster"},
		{"cluster", "UNKNOWN", func(f *facts) {
			f.cluster.err = &awsapi.APIError{Code: "ResourceNotFoundException", Said: "No cluster found for name: my-cluster."}
		}, "No cluster found for name: my-cluster.", "aws configure list && aws sts get-caller-identity"},
		{"cluster", "UNKNOWN", func(f *facts) { f.cluster.err = &awsapi.DeniedError{Permission: "eks:DescribeCluster"} }, "the permission eks:DescribeCluster is missing", "--policy"},
		{"endpoint-access", "FAIL", func(f *facts) { f.cluster.value.PrivateAccess = false }, "neither private nor public access is on", "endpointPrivateAccess=true"},
		{"endpoint-access", "FAIL", func(f *facts) {
			f.cluster.value.PrivateAccess, f.cluster.value.PublicAccess, f.cluster.value.PublicCIDRs = false, true, []string{"192.0.2.0/24"}
		}, "private access is off, and public access is for 192.0.2.0/24 only: nodes in subnet-1 come from 198.51.100.1 over nat-1", "endpointPrivateAccess=true"},
		{"kubelet-version", "FAIL", func(f *facts) { f.target.Kubelet = "1.35.0" }, "the kubelet is 1.35.0 as specified, the control plane 1.34", "1.34"},
		{"kubelet-version", "FAIL", func(f *facts) { f.image.value.Tags[KubernetesTag] = "1.30.1" }, "the kubelet is 1.30.1 by the image's tag", "1.34"},
		{"kubelet-version", "UNKNOWN", func(f *facts) { f.image.value.Tags = nil }, "the image has no tag eksnode:kubernetes-version", "aws ec2 create-tags --resources ami-0123456789abcdef0"},
		{"addons", "FAIL", func(f *facts) { addon(f, "kube-proxy").Version = "v1.35.0-eksbuild.2" }, "kube-proxy is v1.35.0-eksbuild.2", "aws eks update-addon --cluster-name my-cluster --addon-name kube-proxy"},
		{"addons", "FAIL", func(f *facts) { addon(f, "vpc-cni").Version = "v1.13.0-eksbuild.1" }, "vpc-cni is v1.13.0-eksbuild.1", "--addon-name vpc-cni --resolve-conflicts PRESERVE --addon-version "},
		{"addons", "FAIL", func(f *facts) {
			addon(f, "vpc-cni").Version = "v1.13.0-eksbuild.1"
			addon(f, "vpc-cni").Role, addon(f, "vpc-cni").Configuration = role, `{"env":{"A":"it's"}}`
		}, "vpc-cni is v1.13.0-eksbuild.1", " --resolve-conflicts PRESERVE --service-account-role-arn " + role + ` --configuration-values '{"env":{"A":"it'\''s"}}' --addon-version `},
		{"addons", "WARN", func(f *facts) { addon(f, "vpc-cni").Status = "CREATE_FAILED" }, "vpc-cni is CREATE_FAILED", "aws eks describe-addon --cluster-name my-cluster --addon-name vpc-cni"},
		{"image-state", "FAIL", func(f *facts) { f.image.value.State = "pending" }, "the image is pending", "aws ec2 wait image-available"},
		{"image-state", "FAIL", func(f *facts) { f.image.value.RootType = "instance-store" }, "the root device has the type instance-store", "packer build -only='amazon-ebs.*' ."},
		{"image-owner", "WARN", func(f *facts) { f.image.value.Owner = "666666666666" }, "the image belongs to the account 666666666666, but your account is 123456789012", "aws ec2 describe-images"},
		{"image-ena", "FAIL", func(f *facts) { f.image.value.ENA = false }, "ENA is off; set ena_support = true in the build", "--ena-support"},
		{"image-architecture", "FAIL", func(f *facts) { f.launch.value.Type, f.architectures.value = "m7g.large", []string{"arm64"} }, "the image is for x86_64, but m7g.large runs arm64", "Name=processor-info.supported-architecture,Values=x86_64"},
		{"cluster-tag", "FAIL", func(f *facts) { f.launch.value.Tags = nil }, "the instance i-1 has no tag kubernetes.io/cluster/my-cluster=owned", "aws ec2 create-tags --resources i-1 --tags Key=kubernetes.io/cluster/my-cluster,Value=owned"},
		{"cluster-tag", "FAIL", func(f *facts) { f.launch.value.Tags["kubernetes.io/cluster/my-cluster"] = "yes" }, `is "yes", but must be owned`, "Value=owned"},
		{"user-data", "FAIL", func(f *facts) { say(f, "") }, "the instance i-1 has no user data", "eksnode userdata render --family al2023 --cluster my-cluster"},
		{"user-data", "FAIL", userData("name: my-cluster", "name: other"), "the cluster in the user data is other, but should be my-cluster", "eksnode userdata render --family al2023"},
		{"user-data", "FAIL", userData("https://ABC", "https://ABD"), "the endpoint in the user data is https://ABD.gr7", "eksnode userdata"},
		{"user-data", "FAIL", userData(authority, "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="), "the certificate authority in the user data is LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==", "eksnode userdata"},
		{"user-data", "FAIL", userData("cidr", "cird"), "14: spec.cluster.cird: unknown field; did you mean cidr?", "eksnode userdata"},
		{"user-data", "FAIL", userData(joining, "hello"), "the family of the user data is not recognized", "eksnode userdata"},
		{"user-data", "FAIL", func(f *facts) { f.image.value.Platform = "windows" }, "the user data is for al2023, but ami-0123456789abcdef0 (node-1.34) reads windows", "eksnode userdata render --family windows"},
		{"user-data", "FAIL", func(f *facts) {
			f.image.value.Name, f.image.value.OwnerAlias = "bottlerocket-aws-k8s-1.34-x86_64-v1.50.0", "amazon"
		}, "reads bottlerocket", "eksnode userdata render --family bottlerocket"},
		{"user-data", "WARN", func(f *facts) {
			f.image.value.Name, f.image.value.Tags = "amazon-eks-node-1.30-v20250101", nil
		}, "the user data is for al2023, but images named amazon-eks-node-1.30-v20250101 read al2", "eksnode userdata render --family al2 "},
		{"user-data", "FAIL", func(f *facts) {
			f.image.value.Tags = nil
			say(f, "<powershell>\n& Start-EKSBootstrap.ps1 -EKSClusterName my-cluster\n</powershell>\n")
		}, `the user data is for windows, but the image's platform is ""`, "eksnode userdata render --family al2023"},
		{"metadata", "FAIL", func(f *facts) { f.launch.value.NoMetadata = true }, "the metadata service is off for the instance i-1", "aws ec2 modify-instance-metadata-options --http-endpoint enabled --instance-id i-1"},
		{"instance-profile", "FAIL", func(f *facts) { f.launch.value.Profile, f.profile.value = "", awsapi.Profile{} }, "the instance i-1 has no instance profile", "aws ec2 associate-iam-instance-profile --instance-id i-1"},
		{"instance-profile", "FAIL", func(f *facts) { f.profile.err = &awsapi.APIError{Code: "NoSuchEntity"} }, "NoSuchEntity", "aws iam create-instance-profile --instance-profile-name nodes && "},
		{"instance-profile", "UNKNOWN", func(f *facts) {
			f.launch.err = errors.New("describing the instance i-1: the instance is terminated, and EC2 no longer has its settings")
			f.profile.err = f.launch.err
		}, "describing the instance i-1: the instance is terminated", "eksnode preflight"},
		{"instance-profile", "UNKNOWN", func(f *facts) { f.profile.err = &awsapi.DeniedError{Permission: "iam:GetInstanceProfile"} }, "the permission iam:GetInstanceProfile is missing", "--policy"},
		{"role-trust", "FAIL", func(f *facts) {
			f.profile.value.Role.Trust = strings.Replace(f.profile.value.Role.Trust, "ec2.", "eks.", 1)
		}, "node does not trust ec2.amazonaws.com", "aws iam update-assume-role-policy --role-name node"},
		{"role-trust", "FAIL", func(f *facts) {
			f.profile.value.Role.Trust = `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sts:*"},{"Effect":"Deny","Principal":{"Service":["ec2.amazonaws.com"]},"Action":["sts:AssumeRole"]}]}`
		}, "node does not trust ec2.amazonaws.com: a statement denies it", "aws iam get-role --role-name node --query Role.AssumeRolePolicyDocument"},
		{"role-trust", "FAIL", func(f *facts) {
			f.profile.value.Role.Trust = `{"Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::1:root"},"Action":"sts:AssumeRole"}}`
		}, "node does not trust ec2.amazonaws.com", `aws iam update-assume-role-policy --role-name node --policy-document '{"Statement":[{"Action":"sts:AssumeRole","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::1:root"}},` +
			`{"Action":"sts:AssumeRole","Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"}}]}'`},
		{"role-trust", "FAIL", func(f *facts) { f.profile.value.Role.Trust = `{"Id":"x"}` }, "node does not trust ec2.amazonaws.com",
			`--policy-document '{"Id":"x","Statement":[{"Action":"sts:AssumeRole","Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"}}]}'`},
		{"role-trust", "UNKNOWN", func(f *facts) { f.profile.value.Role.Trust = "{" }, "reading the trust policy of node", "eksnode preflight --cluster my-cluster --instance i-1"},
		{"role-separate", "FAIL", func(f *facts) { f.cluster.value.Role = role }, "both are " + role, "aws iam create-role --role-name NODE-ROLE --assume-role-policy-document"},
		{"policy-cni", "WARN", refuse("ec2:AssignPrivateIpAddresses"), "node lacks ec2:AssignPrivateIpAddresses; the VPC CNI's own role may have it", "AmazonEKS_CNI_Policy"},
		{"policy-registry", "FAIL", refuse("ecr:GetAuthorizationToken"), "node lacks ecr:GetAuthorizationToken", "AmazonEC2ContainerRegistryPullOnly"},
		{"access", "FAIL", func(f *facts) {
			f.entry.value = awsapi.AccessEntry{}
			f.cluster.value.AuthenticationMode = "API"
		}, role + " has no access entry", "aws eks create-access-entry --cluster-name my-cluster --principal-arn " + role + " --type EC2_LINUX"},
		{"access", "FAIL", func(f *facts) { f.entry.value.Type = "STANDARD" }, "has the type STANDARD, but must have EC2_LINUX: people or programs sign in with it, so keep the entry and give these nodes their own role", "aws iam create-role --role-name NODE-ROLE"},
		{"access", "FAIL", byID, "has the type EC2_LINUX, but must have EC2, because InstanceIdNodeName in the user data names nodes by instance ID: Linux nodes", "aws iam create-role --role-name NODE-ROLE"},
		{"access", "FAIL", func(f *facts) {
			byID(f)
			f.entry.value, f.cluster.value.AuthenticationMode = awsapi.AccessEntry{}, "API"
		}, role + " has no access entry", "aws eks create-access-entry --cluster-name my-cluster --principal-arn " + role + " --type EC2"},
		{"aws-auth", "FAIL", func(f *facts) {
			byID(f)
			wrongAuth(role, nodeName, "system:bootstrappers, system:nodes")(f)
		}, "must be system:node:{{SessionName}}", "kubectl edit configmap aws-auth -n kube-system"},
		{"access", "UNKNOWN", func(f *facts) { f.entry.value = awsapi.AccessEntry{} }, "aws-auth decides, and only the Kubernetes API can read aws-auth", "kubectl get configmap aws-auth -n kube-system -o yaml | eksnode preflight --cluster my-cluster --instance i-1 --aws-auth -"},
		{"access", "UNKNOWN", mode("CONFIG_MAP"), "the authentication mode is CONFIG_MAP: aws-auth decides", "--aws-auth -"},
		{"access", "FAIL", func(f *facts) {
			f.entry.value = awsapi.AccessEntry{}
			f.target.AWSAuth = auth("arn:aws:iam::1:role/x", "a", "b")
		}, "aws-auth has no line for " + role, merge},
		{"aws-auth", "UNKNOWN", func(f *facts) { f.entry.value = awsapi.AccessEntry{} }, "aws-auth decides, and only the Kubernetes API can read aws-auth", "--aws-auth -"},
		{"aws-auth", "FAIL", wrongAuth("arn:aws:iam::123456789012:instance-profile/nodes", "x", "y"), "is an instance profile; the line needs the role's ARN", merge},
		{"aws-auth", "FAIL", wrongAuth("arn:aws:iam::123456789012:role/eks/node", nodeName, "system:bootstrappers, system:nodes"), "has a path, which the authenticator ignores", merge},
		{"aws-auth", "FAIL", wrongAuth("arn:aws:iam::123456789012:role/another", nodeName, "system:bootstrappers, system:nodes"), "aws-auth has no line for " + role, merge},
		{"aws-auth", "FAIL", wrongAuth(role, "system:node:{{SessionName}}", "system:bootstrappers, system:nodes"), "must be " + nodeName, "kubectl edit configmap aws-auth -n kube-system"},
		{"aws-auth", "FAIL", wrongAuth(role, nodeName, "system:nodes"), "is not in the group system:bootstrappers", merge},
		{"aws-auth", "UNKNOWN", func(f *facts) {
			f.entry.value = awsapi.AccessEntry{}
			f.target.AWSAuth = []byte("kind: Secret\n")
		}, "the input is not a ConfigMap", "eksnode preflight"},
		{"subnet-vpc", "FAIL", func(f *facts) { nodeSubnet(f).VPC = "vpc-2" }, "subnet-1 is in vpc-2, but the cluster is in vpc-1", "aws ec2 describe-subnets"},
		{"subnet-vpc", "WARN", func(f *facts) { nodeSubnet(f).Free = 3 }, "subnet-1 with 3 addresses", "aws ec2 create-subnet"},
		{"subnet-tag", "FAIL", func(f *facts) { f.cluster.value.Version = "1.18" }, "subnet-1 has no tag kubernetes.io/cluster/my-cluster=shared", "Value=shared"},
		{"security-group-443", "FAIL", func(f *facts) {
			f.launch.value.SecurityGroups, f.nodeGroups.value = []string{"sg-node"}, []awsapi.SecurityGroup{nodeGroup()}
		}, "sg-extra, sg-cluster of the control plane let nothing in to port 443 from sg-node", "authorize-security-group-ingress"},
		{"security-group-443", "FAIL", func(f *facts) { clusterGroup(f, func(g *awsapi.SecurityGroup) { g.Egress = nil }) }, "sg-cluster of the node let nothing out to port 443", "authorize-security-group-egress --group-id sg-cluster"},
		{"security-group-10250", "FAIL", func(f *facts) {
			clusterGroup(f, func(g *awsapi.SecurityGroup) {
				g.Ingress = []awsapi.Rule{{Protocol: "tcp", To: 443, Groups: []string{"sg-cluster"}}}
			})
		}, "let nothing in to port 10250", "--port 10250"},
		{"security-group-443", "FAIL", func(f *facts) {
			// The node's own subnet is not one of the control plane's.
			clusterGroup(f, func(g *awsapi.SecurityGroup) {
				g.Egress = []awsapi.Rule{{Protocol: "tcp", From: 443, To: 443, CIDRs: []string{"10.0.1.0/24"}}}
			})
		}, "sg-cluster of the node let nothing out to port 443", "authorize-security-group-egress --group-id sg-cluster"},
		{"security-group-443", "WARN", func(f *facts) {
			clusterGroup(f, func(g *awsapi.SecurityGroup) {
				g.Egress = []awsapi.Rule{{Protocol: "tcp", From: 443, To: 443, Lists: []string{"pl-1"}}}
			})
		}, "unless one of their prefix lists allows it", "authorize-security-group-egress --group-id sg-cluster"},
		{"security-group-nodes", "FAIL", func(f *facts) {
			f.launch.value.SecurityGroups, f.nodeGroups.value = []string{"sg-node"}, []awsapi.SecurityGroup{nodeGroup()}
		}, "sg-node of other nodes let nothing in to port 53", "--protocol udp --port 53 --source-group sg-node"},
		{"security-group-nodes", "FAIL", func(f *facts) {
			clusterGroup(f, func(g *awsapi.SecurityGroup) {
				g.Ingress = []awsapi.Rule{{Protocol: "tcp", From: 0, To: 65535, CIDRs: []string{"10.0.0.0/16"}}}
			})
		}, "let nothing in to port 53 from sg-cluster (udp)", "--protocol udp"},
		{"policy-ssm", "WARN", refuse("ssm:UpdateInstanceInformation"), "Session Manager reaches it only with", "--role-name node --policy-arn arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"},
		{"network-acl", "FAIL", func(f *facts) {
			acl := nodeACL(f)
			acl.Entries = slices.Insert(acl.Entries, 0, awsapi.ACLEntry{Number: 90, Protocol: "6", Egress: true, CIDR: "10.0.2.128/25", To: 1023})
		}, "acl-1 of subnet-1 does not let the API server pass: TCP to port 443, out to 10.0.2.0/24", "aws ec2 create-network-acl-entry --network-acl-id acl-1 --egress --rule-number 89 --protocol tcp --port-range From=443,To=443 --cidr-block 10.0.2.0/24 --rule-action allow"},
		{"network-acl", "FAIL", func(f *facts) { planeACL(f).Entries = slices.DeleteFunc(planeACL(f).Entries, allowedIn) }, "acl-2 of subnet-2 does not let the API server pass: TCP to port 443, in from 10.0.1.0/24", "--ingress --rule-number 100"},
		{"network-acl", "FAIL", func(f *facts) {
			entry := &planeACL(f).Entries[slices.IndexFunc(planeACL(f).Entries, allowedIn)]
			entry.Protocol, entry.To = "6", 1023
		}, "acl-2 of subnet-2 does not let the replies of the kubelet pass: TCP to ports 32768 to 60999, in from 10.0.1.0/24", "From=32768,To=60999"},
		{"network-acl", "WARN", func(f *facts) {
			nodeACL(f).Entries[slices.IndexFunc(nodeACL(f).Entries, allowedOut)].CIDR = "10.0.0.0/16"
		}, "acl-1 of subnet-1 does not let AWS's services pass: TCP to port 443, out to 0.0.0.0/0", "--cidr-block 0.0.0.0/0"},
		{"network-acl", "UNKNOWN", func(f *facts) {
			f.acls.err = errors.New("describing the network ACLs: AWS returned none for subnet-2")
		}, "describing the network ACLs: AWS returned none for subnet-2", "eksnode preflight"},
		{"network-acl", "UNKNOWN", func(f *facts) { f.acls.err = &awsapi.DeniedError{Permission: "ec2:DescribeNetworkAcls"} }, "the permission ec2:DescribeNetworkAcls is missing", "--policy"},
		{"egress", "FAIL", func(f *facts) { nodeSubnet(f).Routes = nil }, "subnet-1 has no route to the internet, and the VPC has no endpoint for com.amazonaws.eu-west-1.ec2", "aws ec2 create-vpc-endpoint --vpc-id vpc-1 --vpc-endpoint-type Interface --private-dns-enabled --service-name com.amazonaws.eu-west-1.ec2 --subnet-ids subnet-1 --security-group-ids sg-cluster"},
		{"egress", "FAIL", func(f *facts) {
			closed(f, slices.Delete(endpoints(0, "available", true), 3, 4))
		}, "no endpoint for com.amazonaws.eu-west-1.s3", "--vpc-endpoint-type Gateway --service-name com.amazonaws.eu-west-1.s3"},
		{"egress-ssm", "WARN", func(f *facts) { closed(f, endpoints(0, "available", true)) }, "subnet-1 has no route to the internet, and the VPC has no endpoint for com.amazonaws.eu-west-1.ssm; the node still joins", "--service-name com.amazonaws.eu-west-1.ssm --subnet-ids subnet-1"},
		{"sts-region", "FAIL", func(f *facts) {
			f.account.err = &awsapi.APIError{Code: "RegionDisabledException", Said: "STS is not activated in this region for account:123456789012."}
		}, "STS is off for your account in eu-west-1: turn it on in the IAM console", "eksnode preflight --cluster my-cluster --instance i-1"},
		{"private-zones", "FAIL", func(f *facts) {
			f.hiding.value = []hidingZone{{zone: awsapi.Zone{ID: "Z1", Name: "amazonaws.com"}, lost: []string{"ec2.eu-west-1.amazonaws.com"}}}
		}, "the private hosted zone amazonaws.com (Z1) of vpc-1 hides ec2.eu-west-1.amazonaws.com and has no record for this name", "aws route53 list-resource-record-sets --hosted-zone-id Z1"},
		{"vpc-dns", "FAIL", func(f *facts) { f.vpc.value.DNSSupport = false }, "DNS support is off in vpc-1", "--enable-dns-support"},
		{"vpc-dns", "FAIL", func(f *facts) { f.vpc.value.NoDHCP = true }, "vpc-1 has no DHCP options", "Key=domain-name-servers,Values=AmazonProvidedDNS"},
		{"vpc-dns", "WARN", func(f *facts) { f.vpc.value.NameServers = []string{"10.0.0.53"} }, "set the name server 10.0.0.53", "aws ec2 describe-dhcp-options --dhcp-options-ids dopt-1"},
		{"dhcp-domain", "WARN", func(f *facts) { f.vpc.value.Domains = []string{"corp.example"} }, "set the domain corp.example", "aws ec2 describe-dhcp-options --dhcp-options-ids dopt-1"},
	} {
		t.Run(c.check+"/"+c.verdict, func(t *testing.T) {
			f := sample()
			assert.Equal(t, OK, found(t, f, c.check).Verdict, "the check must pass before the change")
			assert.NotEmpty(t, c.judge(t, f).Remedy)
		})
	}
}

func TestEveryCheckHasACase(t *testing.T) {
	var text strings.Builder
	files := testkit.Glob(t, "*_test.go")
	for _, name := range files {
		one := testkit.Content(t, name)
		text.Write([]byte(one))
	}
	for _, c := range Table() {
		assert.True(t, strings.Contains(text.String(), `{"`+c.ID+`", "`), "the check %s has no case", c.ID)
		assert.NotEmpty(t, c.Question)
		assert.NotEmpty(t, c.Why)
		assert.NotNil(t, c.look, "the check %s has no function", c.ID)
		for _, need := range c.Needs {
			assert.Contains(t, new(facts).byName(), need, c.ID)
		}
	}
	assert.Len(t, Table(), len(looks()), "a function has no check")
}

// endpoints returns the VPC endpoints that nodes without a route to the internet
// need. The endpoint with the index other gets the state and private DNS name given.
func endpoints(other int, state string, name bool) []awsapi.Endpoint {
	var list []awsapi.Endpoint
	for i, service := range []string{"ec2", "ecr.api", "ecr.dkr", "s3", "sts", "eks"} {
		e := awsapi.Endpoint{
			ID: fmt.Sprintf("vpce-%d", i), Service: "com.amazonaws.eu-west-1." + service, State: "available", PrivateDNS: true, Interface: true,
			Subnets: []string{"subnet-1"}, Groups: []string{"sg-cluster"}, Policy: fullAccess,
		}
		if service == "s3" {
			e.Interface, e.PrivateDNS, e.Subnets, e.Groups, e.Tables = false, false, nil, nil, []string{"rtb-1", "rtb-main"}
		}
		if i == other {
			e.State, e.PrivateDNS = state, name
		}
		list = append(list, e)
	}
	return list
}
