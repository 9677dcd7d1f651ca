//go:build linux

package preflight_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/preflight"
)

// All tests run where nothing but loopback can be reached.
func TestMain(m *testing.M) { os.Exit(aws.Alone(m.Run)) }

func run(t *testing.T, w *aws.World, target preflight.Target) preflight.Report {
	t.Helper()
	w.Serve(t)
	return ask(t, target)
}

func ask(t *testing.T, target preflight.Target) preflight.Report {
	t.Helper()
	a, err := awsapi.Open(t.Context(), awsapi.Options{Pause: time.Millisecond, Settle: time.Millisecond})
	require.NoError(t, err)
	r, err := preflight.Run(t.Context(), a, target)
	require.NoError(t, err)
	return r
}

var (
	instance = preflight.Target{Cluster: "my-cluster", Instance: "i-1"}
	template = preflight.Target{Cluster: "my-cluster", Template: "nodes", TemplateVersion: "$Default"}
)

// One case for each check, shown failing and, undone, passing.
func TestEachCheckFailsAndPasses(t *testing.T) {
	role := "arn:aws:iam::123456789012:role/node"
	auth := func(arn, username, groups string) []byte {
		return []byte("kind: ConfigMap\ndata:\n  mapRoles: |\n    - rolearn: " + arn + "\n      username: " + username + "\n      groups: [" + groups + "]\n")
	}
	const nodeName = "system:node:{{EC2PrivateDNSName}}"
	merge := "kubectl get configmap aws-auth -n kube-system -o yaml | eksnode manifests --cluster my-cluster --role " + role + " --only aws-auth --aws-auth - | kubectl apply -f -"
	mode := func(name string) func(*aws.World, *preflight.Target) {
		return func(w *aws.World, _ *preflight.Target) {
			w.Clusters["my-cluster"]["accessConfig"] = map[string]any{"authenticationMode": name}
		}
	}
	wrongAuth := func(arn, username, groups string) func(*aws.World, *preflight.Target) {
		return func(w *aws.World, t *preflight.Target) {
			mode("CONFIG_MAP")(w, t)
			t.AWSAuth = auth(arn, username, groups)
		}
	}
	vpcConfig := func(w *aws.World) map[string]any {
		return w.Clusters["my-cluster"]["resourcesVpcConfig"].(map[string]any)
	}
	userData := func(old, new string) func(*aws.World, *preflight.Target) {
		return func(w *aws.World, _ *preflight.Target) {
			w.Instances[0].UserData = base64.StdEncoding.EncodeToString([]byte(strings.Replace(aws.UserData, old, new, 1)))
		}
	}
	only := func(policies ...string) func(*aws.World, *preflight.Target) {
		return func(w *aws.World, _ *preflight.Target) { w.Policies["node"] = policies }
	}
	for _, c := range []struct {
		check, verdict string
		change         func(*aws.World, *preflight.Target)
		evidence       string
		remedy         string
	}{
		{"cluster", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Clusters["my-cluster"]["status"] = "CREATING" }, "it is CREATING", "aws eks wait cluster-active --name my-cluster"},
		{"cluster", "FAIL", func(w *aws.World, _ *preflight.Target) { delete(w.Clusters["my-cluster"], "endpoint") }, "it tells no endpoint", "aws eks describe-cluster --name my-cluster"},
		{"cluster", "UNKNOWN", func(w *aws.World, _ *preflight.Target) { w.Clusters = nil }, "No cluster found for name: my-cluster.", "aws configure list && aws sts get-caller-identity"},
		{"cluster", "UNKNOWN", func(w *aws.World, _ *preflight.Target) { w.Deny("eks:DescribeCluster") }, "the permission eks:DescribeCluster is missing", "--policy"},
		{"endpoint-access", "FAIL", func(w *aws.World, _ *preflight.Target) { vpcConfig(w)["endpointPrivateAccess"] = false }, "neither private nor public access is on", "endpointPrivateAccess=true"},
		{"endpoint-access", "WARN", func(w *aws.World, _ *preflight.Target) {
			maps.Copy(vpcConfig(w), map[string]any{"endpointPrivateAccess": false, "endpointPublicAccess": true, "publicAccessCidrs": []string{"192.0.2.0/24"}})
		}, "public access is for 192.0.2.0/24 only", "endpointPrivateAccess=true"},
		{"kubelet-version", "FAIL", func(_ *aws.World, t *preflight.Target) { t.Kubelet = "1.35.0" }, "the kubelet is 1.35.0 as you said, the control plane 1.34", "1.34"},
		{"kubelet-version", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Images[3].Tags[0].Value = "1.30.1" }, "the kubelet is 1.30.1 by the image's tag", "1.34"},
		{"kubelet-version", "UNKNOWN", func(w *aws.World, _ *preflight.Target) { w.Images[3].Tags = nil }, "the image has no tag eksnode:kubernetes-version", "aws ec2 create-tags --resources ami-0123456789abcdef0"},
		{"addons", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Addons["my-cluster"]["kube-proxy"] = "v1.35.0-eksbuild.2" }, "kube-proxy is v1.35.0-eksbuild.2", "aws eks update-addon --cluster-name my-cluster --addon-name kube-proxy"},
		{"addons", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Addons["my-cluster"]["vpc-cni"] = "v1.13.0-eksbuild.1" }, "vpc-cni is v1.13.0-eksbuild.1", "--addon-name vpc-cni --resolve-conflicts PRESERVE --addon-version "},
		{"addons", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Addons["my-cluster"]["vpc-cni"] = "v1.13.0-eksbuild.1"
			w.AddonRole, w.AddonValues = role, `{"env":{"A":"it's"}}`
		}, "vpc-cni is v1.13.0-eksbuild.1", " --resolve-conflicts PRESERVE --service-account-role-arn " + role + ` --configuration-values '{"env":{"A":"it'\''s"}}' --addon-version `},
		{"addons", "WARN", func(w *aws.World, _ *preflight.Target) { w.Addons = nil }, "EKS manages none", "kubectl"},
		{"addons", "WARN", func(w *aws.World, _ *preflight.Target) { w.AddonStatus = map[string]string{"vpc-cni": "CREATE_FAILED"} }, "vpc-cni is CREATE_FAILED", "aws eks describe-addon --cluster-name my-cluster --addon-name vpc-cni"},
		{"image-state", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Images[3].State = "pending" }, "it is pending", "aws ec2 wait image-available"},
		{"image-state", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Images[3].RootType = "instance-store" }, "its root device is of the type instance-store", "packer build -only='amazon-ebs.*' ."},
		{"image-state", "UNKNOWN", func(w *aws.World, _ *preflight.Target) { w.Images = w.Images[:3] }, "InvalidAMIID.NotFound", "aws configure list"},
		{"image-owner", "WARN", func(w *aws.World, _ *preflight.Target) { w.Images[3].Owner = "666666666666" }, "it belongs to the account 666666666666, and you are 123456789012", "aws ec2 describe-images"},
		{"image-ena", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Images[3].ENA = false }, "it is off; set ena_support = true in the build", "--ena-support"},
		{"image-architecture", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Instances[0].Type = "m7g.large" }, "the image is for x86_64, and m7g.large runs arm64", "Name=processor-info.supported-architecture,Values=x86_64"},
		{"cluster-tag", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Instances[0].Tags = nil }, "the instance i-1 has no tag kubernetes.io/cluster/my-cluster=owned", "aws ec2 create-tags --resources i-1 --tags Key=kubernetes.io/cluster/my-cluster,Value=owned"},
		{"cluster-tag", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Instances[0].Tags[0].Value = "yes" }, `is "yes", and must be owned`, "Value=owned"},
		{"user-data", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Instances[0].UserData = "" }, "the instance i-1 has none", "eksnode userdata render --family al2023 --cluster my-cluster"},
		{"user-data", "FAIL", userData("name: my-cluster", "name: other"), "its cluster is other, and should be my-cluster", "eksnode userdata render --family al2023"},
		{"user-data", "FAIL", userData("https://ABC", "https://ABD"), "its endpoint is https://ABD.gr7", "eksnode userdata"},
		{"user-data", "FAIL", userData("Y2VydGlmaWNhdGU=", "YQ=="), "its certificate authority is YQ==", "eksnode userdata"},
		{"user-data", "FAIL", userData("cidr", "cird"), "14: spec.cluster.cird: unknown field; did you mean cidr?", "eksnode userdata"},
		{"user-data", "FAIL", userData(aws.UserData, "hello"), "it looks like user data of no family", "eksnode userdata"},
		{"user-data", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Images[3].Platform = "windows" }, "it is for al2023, and ami-0123456789abcdef0 (node-1.34) reads windows", "eksnode userdata render --family windows"},
		{"user-data", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Images[3].Name, w.Images[3].Alias = "bottlerocket-aws-k8s-1.34-x86_64-v1.50.0", "amazon"
		}, "reads bottlerocket", "eksnode userdata render --family bottlerocket"},
		{"user-data", "WARN", func(w *aws.World, _ *preflight.Target) {
			w.Images[3].Name, w.Images[3].Tags = "amazon-eks-node-1.30-v20250101", nil
		}, "it is for al2023, and images of the name amazon-eks-node-1.30-v20250101 read al2", "eksnode userdata render --family al2 "},
		{"user-data", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Images[3].Tags = nil
			w.Instances[0].UserData = base64.StdEncoding.EncodeToString([]byte("<powershell>\n& Start-EKSBootstrap.ps1 -EKSClusterName my-cluster\n</powershell>\n"))
		}, `it is for windows, and the image's platform is ""`, "eksnode userdata render --family al2023"},
		{"metadata", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Instances[0].Metadata = "disabled" }, "it is switched off for the instance i-1", "aws ec2 modify-instance-metadata-options --http-endpoint enabled --instance-id i-1"},
		{"instance-profile", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Instances[0].Profile = "" }, "the instance i-1 has no instance profile", "aws ec2 associate-iam-instance-profile --instance-id i-1"},
		{"instance-profile", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Profiles = nil }, "NoSuchEntity", "aws iam create-instance-profile --instance-profile-name nodes && "},
		{"instance-profile", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Profiles[0].Role = "" }, "the instance profile nodes has no role", "aws iam add-role-to-instance-profile"},
		{"instance-profile", "UNKNOWN", func(w *aws.World, _ *preflight.Target) { w.Instances[0].State = "terminated" }, "describing the instance i-1: it is terminated", "eksnode preflight"},
		{"instance-profile", "UNKNOWN", func(w *aws.World, _ *preflight.Target) { w.Deny("iam:GetInstanceProfile") }, "the permission iam:GetInstanceProfile is missing", "--policy"},
		{"role-trust", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Profiles[0].Trust = strings.Replace(w.Profiles[0].Trust, "ec2.", "eks.", 1)
		}, "node does not trust ec2.amazonaws.com", "aws iam update-assume-role-policy --role-name node"},
		{"role-trust", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Profiles[0].Trust = `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sts:*"},{"Effect":"Deny","Principal":{"Service":["ec2.amazonaws.com"]},"Action":["sts:AssumeRole"]}]}`
		}, "node does not trust ec2.amazonaws.com: a statement denies it", "aws iam get-role --role-name node --query Role.AssumeRolePolicyDocument"},
		{"role-trust", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Profiles[0].Trust = `{"Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::1:root"},"Action":"sts:AssumeRole"}}`
		}, "node does not trust ec2.amazonaws.com", `aws iam update-assume-role-policy --role-name node --policy-document '{"Statement":[{"Action":"sts:AssumeRole","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::1:root"}},` +
			`{"Action":"sts:AssumeRole","Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"}}]}'`},
		{"role-trust", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Profiles[0].Trust = `{"Id":"x"}` }, "node does not trust ec2.amazonaws.com",
			`--policy-document '{"Version":"2012-10-17","Id":"x","Statement":[{"Action":"sts:AssumeRole","Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"}}]}'`},
		{"role-trust", "UNKNOWN", func(w *aws.World, _ *preflight.Target) { w.Profiles[0].Trust = "{" }, "reading the trust policy of node", "eksnode preflight --cluster my-cluster --instance i-1"},
		{"role-separate", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Clusters["my-cluster"]["roleArn"] = role }, "both are " + role, "aws iam create-role --role-name NODE-ROLE --assume-role-policy-document"},
		{"policy-worker", "FAIL", only("AmazonEKS_CNI_Policy"), "node has no policy AmazonEKSWorkerNodePolicy", "aws iam attach-role-policy --role-name node --policy-arn arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"},
		{"policy-cni", "WARN", only("AmazonEKSWorkerNodePolicy"), "the VPC CNI's own role may have it", "AmazonEKS_CNI_Policy"},
		{"policy-registry", "FAIL", only("AmazonEKSWorkerNodePolicy"), "AmazonEC2ContainerRegistryPullOnly or AmazonEC2ContainerRegistryReadOnly", "AmazonEC2ContainerRegistryPullOnly"},
		{"access", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Entries = nil
			w.Clusters["my-cluster"]["accessConfig"] = map[string]any{"authenticationMode": "API"}
		}, role + " has no access entry", "aws eks create-access-entry --cluster-name my-cluster --principal-arn " + role + " --type EC2_LINUX"},
		{"access", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Entries["my-cluster"][role] = "STANDARD" }, "is of the type STANDARD, and must be EC2_LINUX: people or programs sign in by it, so it stays, and these nodes need a role of their own", "aws iam create-role --role-name NODE-ROLE"},
		{"access", "UNKNOWN", func(w *aws.World, _ *preflight.Target) { w.Entries = nil }, "aws-auth decides, and only the Kubernetes API tells it", "kubectl get configmap aws-auth -n kube-system -o yaml | eksnode preflight --cluster my-cluster --instance i-1 --aws-auth -"},
		{"access", "UNKNOWN", mode("CONFIG_MAP"), "the authentication mode is CONFIG_MAP: aws-auth decides", "--aws-auth -"},
		{"access", "FAIL", func(w *aws.World, t *preflight.Target) {
			w.Entries = nil
			t.AWSAuth = auth("arn:aws:iam::1:role/x", "a", "b")
		}, "aws-auth has no line for " + role, merge},
		{"aws-auth", "UNKNOWN", func(w *aws.World, _ *preflight.Target) { w.Entries = nil }, "it was not handed in; only the Kubernetes API tells it", "--aws-auth -"},
		{"aws-auth", "FAIL", wrongAuth("arn:aws:iam::123456789012:instance-profile/nodes", "x", "y"), "is an instance profile; the line needs the role's ARN", merge},
		{"aws-auth", "FAIL", wrongAuth("arn:aws:iam::123456789012:role/eks/node", nodeName, "system:bootstrappers, system:nodes"), "has a path, which the authenticator does not see", merge},
		{"aws-auth", "FAIL", wrongAuth("arn:aws:iam::123456789012:role/another", nodeName, "system:bootstrappers, system:nodes"), "it has no line for " + role, merge},
		{"aws-auth", "FAIL", wrongAuth(role, "system:node:{{SessionName}}", "system:bootstrappers, system:nodes"), "must be " + nodeName, "kubectl edit configmap aws-auth -n kube-system"},
		{"aws-auth", "FAIL", wrongAuth(role, nodeName, "system:nodes"), "is not in the group system:bootstrappers", merge},
		{"aws-auth", "UNKNOWN", func(w *aws.World, t *preflight.Target) {
			w.Entries = nil
			t.AWSAuth = []byte("kind: Secret\n")
		}, "it is no ConfigMap", "eksnode preflight"},
		{"subnet-vpc", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Subnets[0].VPC = "vpc-2" }, "subnet-1 is in vpc-2, and the cluster in vpc-1", "aws ec2 describe-subnets"},
		{"subnet-vpc", "WARN", func(w *aws.World, _ *preflight.Target) { w.Subnets[0].Free = 3 }, "subnet-1 with 3 addresses", "aws ec2 create-subnet"},
		{"subnet-tag", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Clusters["my-cluster"]["version"] = "1.18" }, "subnet-1 has no tag kubernetes.io/cluster/my-cluster=shared", "Value=shared"},
		{"security-group-443", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Instances[0].Groups = []aws.Group{{ID: "sg-node"}} }, "the control plane's sg-extra, sg-cluster let nothing in to port 443 from sg-node", "authorize-security-group-ingress"},
		{"security-group-443", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Groups[0].Egress = nil }, "the node's sg-cluster let nothing out to port 443", "authorize-security-group-egress --group-id sg-cluster"},
		{"security-group-10250", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Groups[0].Ingress[0].Protocol, w.Groups[0].Ingress[0].To = "tcp", 443
		}, "let nothing in to port 10250", "--port 10250"},
		{"security-group-443", "FAIL", func(w *aws.World, _ *preflight.Target) {
			// The node's own subnet is not where the control plane is.
			w.Groups[0].Egress = []aws.Permission{{Protocol: "tcp", From: 443, To: 443, CIDRs: []string{"10.0.1.0/24"}}}
		}, "the node's sg-cluster let nothing out to port 443", "authorize-security-group-egress --group-id sg-cluster"},
		{"security-group-443", "WARN", func(w *aws.World, _ *preflight.Target) {
			w.Groups[0].Egress = []aws.Permission{{Protocol: "tcp", From: 443, To: 443, Lists: []aws.List{{ID: "pl-1"}}}}
		}, "unless one of their prefix lists does", "authorize-security-group-egress --group-id sg-cluster"},
		{"security-group-nodes", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Instances[0].Groups = []aws.Group{{ID: "sg-node"}} }, "other nodes's sg-node let nothing in to port 53", "--protocol udp --port 53 --source-group sg-node"},
		{"security-group-nodes", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Groups[0].Ingress = []aws.Permission{{Protocol: "tcp", From: 0, To: 65535, CIDRs: []string{"10.0.0.0/16"}}}
		}, "let nothing in to port 53 from sg-cluster (udp)", "--protocol udp"},
		{"policy-ssm", "WARN", only("AmazonEKSWorkerNodePolicy"), "nobody gets on to it through Session Manager", "--role-name node --policy-arn arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"},
		{"network-acl", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.ACLs[0].Entries = slices.Insert(w.ACLs[0].Entries, 2, aws.ACLEntry{Number: 90, Protocol: "6", Action: "deny", Egress: true, CIDR: "10.0.2.128/25", Ports: &aws.PortRange{From: 0, To: 1023}})
		}, "acl-1 of subnet-1 does not let the API server pass: TCP to port 443, out to 10.0.2.0/24", "aws ec2 create-network-acl-entry --network-acl-id acl-1 --egress --rule-number 89 --protocol tcp --port-range From=443,To=443 --cidr-block 10.0.2.0/24 --rule-action allow"},
		{"network-acl", "FAIL", func(w *aws.World, _ *preflight.Target) { w.ACLs[1].Entries = w.ACLs[1].Entries[1:] }, "acl-2 of subnet-2 does not let the API server pass: TCP to port 443, in from 10.0.1.0/24", "--ingress --rule-number 100"},
		{"network-acl", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.ACLs[1].Entries[0].Protocol, w.ACLs[1].Entries[0].Ports = "6", &aws.PortRange{From: 0, To: 1023}
		}, "acl-2 of subnet-2 does not let the answers of the kubelet pass: TCP to ports 32768 to 60999, in from 10.0.1.0/24", "From=32768,To=60999"},
		{"network-acl", "WARN", func(w *aws.World, _ *preflight.Target) { w.ACLs[0].Entries[2].CIDR = "10.0.0.0/16" }, "acl-1 of subnet-1 does not let AWS's services pass: TCP to port 443, out to 0.0.0.0/0", "--cidr-block 0.0.0.0/0"},
		{"network-acl", "UNKNOWN", func(w *aws.World, _ *preflight.Target) { w.ACLs = w.ACLs[:1] }, "describing the network ACLs: the answer has none of subnet-2", "eksnode preflight"},
		{"network-acl", "UNKNOWN", func(w *aws.World, _ *preflight.Target) { w.Deny("ec2:DescribeNetworkAcls") }, "the permission ec2:DescribeNetworkAcls is missing", "--policy"},
		{"egress", "FAIL", func(w *aws.World, _ *preflight.Target) { w.Routes[0].Routes = w.Routes[0].Routes[:1] }, "subnet-1 leads nowhere, and the network has no endpoint for com.amazonaws.eu-west-1.ec2", "aws ec2 create-vpc-endpoint --vpc-id vpc-1 --vpc-endpoint-type Interface --private-dns-enabled --service-name com.amazonaws.eu-west-1.ec2 --subnet-ids subnet-1 --security-group-ids sg-cluster"},
		{"egress", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Routes[0].Routes = nil
			w.Endpoints = endpoints(3, "pendingAcceptance", true)
		}, "the endpoint vpce-3 for com.amazonaws.eu-west-1.s3 is pendingAcceptance", "aws ec2 describe-vpc-endpoints --vpc-endpoint-ids vpce-3"},
		{"egress", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Routes[0].Routes = nil
			w.Endpoints = endpoints(4, "available", false)
		}, "the name of com.amazonaws.eu-west-1.sts does not lead to its endpoint vpce-4", "aws ec2 modify-vpc-endpoint --vpc-endpoint-id vpce-4 --private-dns-enabled"},
		{"egress", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Routes[0].Routes = nil
			w.Endpoints = slices.Delete(endpoints(0, "available", true), 3, 4)
		}, "no endpoint for com.amazonaws.eu-west-1.s3", "--vpc-endpoint-type Gateway --service-name com.amazonaws.eu-west-1.s3"},
		{"egress", "FAIL", func(w *aws.World, _ *preflight.Target) {
			w.Routes[0].Routes[1] = aws.Route{To: "0.0.0.0/0", Gateway: "igw-1", State: "active"}
		}, "its instances get no public address", "aws ec2 associate-address --instance-id i-1 --allocation-id"},
		{"vpc-dns", "FAIL", func(w *aws.World, _ *preflight.Target) { w.VPCs[0].Support = false }, "DNS support is off in vpc-1", "--enable-dns-support"},
		{"vpc-dns", "FAIL", func(w *aws.World, _ *preflight.Target) { w.VPCs[0].Hostnames = false }, "DNS host names are off in vpc-1", "--enable-dns-hostnames"},
		{"vpc-dns", "FAIL", func(w *aws.World, _ *preflight.Target) { w.VPCs[0].DHCP = "default" }, "vpc-1 has no DHCP options", "Key=domain-name-servers,Values=AmazonProvidedDNS"},
		{"vpc-dns", "WARN", func(w *aws.World, _ *preflight.Target) { w.DHCP[0].Set("domain-name-servers", "10.0.0.53") }, "set the name server 10.0.0.53", "aws ec2 describe-dhcp-options --dhcp-options-ids dopt-1"},
		{"dhcp-domain", "WARN", func(w *aws.World, _ *preflight.Target) { w.DHCP[0].Set("domain-name", "corp.example") }, "set the domain corp.example", "aws ec2 describe-dhcp-options --dhcp-options-ids dopt-1"},
	} {
		t.Run(c.check+"/"+c.verdict, func(t *testing.T) {
			w, target := aws.Sample(), instance
			w.Serve(t)
			finding := func() preflight.Finding {
				r := ask(t, target)
				i := slices.IndexFunc(r.Findings, func(f preflight.Finding) bool { return f.Check == c.check })
				require.GreaterOrEqual(t, i, 0)
				return r.Findings[i]
			}
			assert.Equal(t, preflight.OK, finding().Verdict, "it passes before")
			c.change(w, &target)
			f := finding()
			assert.Equal(t, c.verdict, string(f.Verdict))
			assert.Contains(t, f.Evidence, c.evidence)
			assert.Contains(t, f.Remedy, c.remedy)
			assert.NoError(t, cli.Check(f.Remedy, "eksnode", "kubectl", "packer", "sh"), "the remedy is a command")
		})
	}
}

func TestEveryCheckHasACase(t *testing.T) {
	text, err := os.ReadFile("preflight_test.go")
	require.NoError(t, err)
	for _, c := range preflight.Table() {
		assert.Contains(t, string(text), `{"`+c.ID+`", "`, "the check %s has no case", c.ID)
		assert.NotEmpty(t, c.Question)
		assert.NotEmpty(t, c.Why)
	}
}

func TestAllIsWell(t *testing.T) {
	w := aws.Sample()
	w.PageSize = 1
	r := run(t, w, instance)
	for _, f := range r.Findings {
		assert.Equal(t, preflight.OK, f.Verdict, "%s: %s", f.Check, f.Evidence)
		assert.NotEmpty(t, f.Evidence)
		assert.Empty(t, f.Remedy)
	}
	assert.Len(t, r.Findings, len(preflight.Table()))
	assert.Empty(t, r.LeftOut)
	assert.Equal(t, 0, r.ExitCode())

	r = ask(t, preflight.Target{Cluster: "my-cluster", Template: "nodes", TemplateVersion: "$Latest"})
	assert.Equal(t, 0, r.ExitCode(), "%+v", r.Findings)
	r = ask(t, preflight.Target{Cluster: "my-cluster", AMI: "ami-0123456789abcdef0", Subnets: []string{"subnet-2"}})
	assert.Equal(t, 0, r.ExitCode(), "%+v", r.Findings)
	assert.Contains(t, r.LeftOut, "cluster-tag")
	w.Subnets[1].Free = 1
	r = ask(t, preflight.Target{Cluster: "my-cluster", AMI: "ami-0123456789abcdef0", Subnets: []string{"subnet-2"}})
	assert.Equal(t, 0, r.ExitCode(), "a warning is no failure")
	assert.Equal(t, 1, r.Count(preflight.Warn))
}

// endpoints are those that nodes without a way out need; one of them is in
// another state.
func endpoints(other int, state string, name bool) []aws.Endpoint {
	var list []aws.Endpoint
	for i, service := range []string{"ec2", "ecr.api", "ecr.dkr", "s3", "sts", "eks"} {
		e := aws.Endpoint{ID: fmt.Sprintf("vpce-%d", i), Service: "com.amazonaws.eu-west-1." + service, VPC: "vpc-1", Kind: "Interface", State: "available", PrivateDNS: true}
		if service == "s3" {
			e.Kind, e.PrivateDNS = "Gateway", false
		}
		if i == other {
			e.State, e.PrivateDNS = state, name
		}
		list = append(list, e)
	}
	return list
}

// The endpoints that nodes without a way out need are seen.
func TestEgressOverEndpoints(t *testing.T) {
	w := aws.Sample()
	w.Routes[0].Routes = nil
	w.Endpoints = endpoints(0, "available", true)
	w.PageSize = 2
	assert.Equal(t, 0, run(t, w, instance).ExitCode())
}

// AWS's own name server may be named by its addresses.
func TestAWSsNameServer(t *testing.T) {
	w := aws.Sample()
	for _, server := range []string{"10.0.0.2", "169.254.169.253"} {
		w.DHCP[0].Set("domain-name-servers", server)
		assert.Zero(t, run(t, w, instance).Count(preflight.Warn), server)
	}
}

// The policy is exactly what the calls need.
func TestThePolicyIsWhatIsCalled(t *testing.T) {
	w := aws.Sample()
	run(t, w, instance)
	w.Parameters["/nodes"] = w.Images[3].ID
	w.Templates[0].Data.Image = "resolve:ssm:/nodes"
	assert.Zero(t, ask(t, template).ExitCode())
	assert.Equal(t, preflight.Actions(), slices.Sorted(maps.Keys(w.Calls())))
	text, err := preflight.Policy()
	require.NoError(t, err)
	var policy struct {
		Statement []struct{ Action []string }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &policy))
	assert.Equal(t, preflight.Actions(), policy.Statement[0].Action)
	for _, action := range preflight.Actions() {
		_, verb, _ := strings.Cut(action, ":")
		assert.Regexp(t, "^(Describe|Get|List)", verb, "it changes nothing")
		assert.True(t, cli.Operation(action), action)
	}
}

// Whatever is denied makes what needs it unknown, and nothing else false.
func TestADeniedCallIsUnknown(t *testing.T) {
	for _, action := range preflight.Actions() {
		t.Run(action, func(t *testing.T) {
			w := aws.Sample()
			w.Parameters["/nodes"] = w.Images[3].ID
			w.Templates[0].Data.Image = "resolve:ssm:/nodes"
			w.Deny(action)
			target := instance
			if action == "ec2:DescribeLaunchTemplateVersions" || action == "ssm:GetParameter" {
				target = template
			}
			r := run(t, w, target)
			assert.Equal(t, 2, r.ExitCode(), "%+v", r.Findings)
			for _, f := range r.Findings {
				if f.Verdict == preflight.Unknown {
					assert.Contains(t, f.Evidence, "the permission "+action+" is missing", f.Check)
					assert.Equal(t, "eksnode preflight --policy", f.Remedy)
				}
			}
		})
	}
}

// A role with a path stands in aws-auth without it.
func TestARoleWithAPath(t *testing.T) {
	w := aws.Sample()
	w.Profiles[0].RoleARN, w.Profiles[0].Path = "arn:aws:iam::123456789012:role/eks/node", "/eks/"
	w.Clusters["my-cluster"]["accessConfig"] = map[string]any{"authenticationMode": "CONFIG_MAP"}
	target := instance
	target.AWSAuth = []byte("kind: ConfigMap\ndata:\n  mapRoles: |\n    - rolearn: arn:aws:iam::123456789012:instance-profile/others\n" +
		"    - rolearn: arn:aws:iam::123456789012:role/node\n      username: system:node:{{EC2PrivateDNSName}}\n      groups: [system:bootstrappers, system:nodes]\n")
	r := run(t, w, target)
	assert.Equal(t, 0, r.ExitCode(), "%+v", r.Findings)
	assert.Zero(t, w.Calls()["eks:DescribeAccessEntry"], "EKS lets nobody ask in this mode")
}

// Credentials that AWS does not take are told once, not by every check.
func TestCredentialsThatAreNone(t *testing.T) {
	w := aws.Sample()
	w.Serve(t)
	w.Fail("sts:GetCallerIdentity", 1, "ExpiredToken", 403)
	a, err := awsapi.Open(t.Context(), awsapi.Options{Pause: time.Millisecond, Settle: time.Millisecond})
	require.NoError(t, err)
	_, err = preflight.Run(t.Context(), a, instance)
	require.EqualError(t, err, "asking who we are: ExpiredToken: as the test wants it")
	assert.Len(t, w.Calls(), 1)
}

func TestThrottledAndLate(t *testing.T) {
	w := aws.Sample()
	w.Fail("ec2:DescribeInstances", 2, "InvalidInstanceID.NotFound", 400)
	w.Fail("ec2:DescribeSubnets", 3, "RequestLimitExceeded", 503)
	w.Fail("iam:GetInstanceProfile", 2, "Throttling", 400)
	assert.Equal(t, 0, run(t, w, instance).ExitCode())
}

func TestTargets(t *testing.T) {
	for want, target := range map[string]preflight.Target{
		"cluster: its name is missing":                            {AMI: "ami-1"},
		"name one of an instance, a launch template and an image": {Cluster: "a"},
	} {
		assert.EqualError(t, target.Validate(), want)
	}
	assert.Error(t, preflight.Target{Cluster: "a", AMI: "b", Instance: "c"}.Validate())
}
