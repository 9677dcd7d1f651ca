//go:build e2e && linux

package preflight

import (
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

const (
	cniRole   = "arn:aws:iam::" + aws.Account + ":role/cni"
	podsTrust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]}]}`
)

var group = Target{Cluster: "my-cluster", NodeGroup: "workers"}

// byPodIdentity gives the VPC CNI its own role by pod identity.
func byPodIdentity(w *aws.World) {
	w.Do("iam:CreateRole", "RoleName", "cni", "AssumeRolePolicyDocument", podsTrust)
	w.Do("iam:AttachRolePolicy", "RoleName", "cni", "PolicyArn", "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
	w.Associations = []aws.Association{{ID: "a-1", Namespace: "kube-system", Account: "aws-node", Role: cniRole}}
	w.Addons["eks-pod-identity-agent"] = map[string]any{"addonVersion": "v1.3.8-eksbuild.2"}
}

// byIRSA gives the VPC CNI its own role by the cluster's OpenID Connect provider.
func byIRSA(t *testing.T, w *aws.World, subject string) {
	t.Helper()
	const issuer = "oidc.eks.eu-west-1.amazonaws.com/id/ABC"
	w.Clusters["my-cluster"]["identity"] = map[string]any{"oidc": map[string]any{"issuer": "https://" + issuer}}
	w.Do("iam:CreateOpenIDConnectProvider", "Url", "https://"+issuer, "ClientIDList.member.1", "sts.amazonaws.com", "ThumbprintList.member.1", strings.Repeat("a", 40))
	w.Do("iam:CreateRole", "RoleName", "cni", "AssumeRolePolicyDocument", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::`+aws.Account+`:oidc-provider/`+issuer+
		`"},"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"`+issuer+`:sub":"`+subject+`","`+issuer+`:aud":"sts.amazonaws.com"}}}]}`)
	w.Do("iam:AttachRolePolicy", "RoleName", "cni", "PolicyArn", "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
	w.Addons["vpc-cni"]["serviceAccountRoleArn"] = cniRole
}

// needing changes the world so that a preflight makes a call, and returns a target
// that does.
func needing(t *testing.T, w *aws.World, action string, target Target) Target {
	t.Helper()
	switch action {
	case "eks:DescribeNodegroup", "iam:GetRole":
		w.NodeGroup("workers", map[string]any{"amiType": "AL2023_x86_64_STANDARD", "version": "1.34", "releaseVersion": "1.34.1-20251002"})
		return group
	case "eks:DescribePodIdentityAssociation":
		byPodIdentity(w)
	case "iam:GetOpenIDConnectProvider":
		byIRSA(t, w, cniAccount)
	}
	return target
}

func managedTemplate(w *aws.World, data ...string) {
	parameters := []string{"LaunchTemplateName", "managed"}
	for i := 0; i < len(data); i += 2 {
		parameters = append(parameters, "LaunchTemplateData."+data[i], data[i+1])
	}
	w.Name("lt-2", w.Do("ec2:CreateLaunchTemplate", parameters...), `<launchTemplateId>(.*?)<`)
}

// owns makes a managed node group with the sample's image.
func owns(data ...string) func(*aws.World) {
	return func(w *aws.World) {
		managedTemplate(w, append([]string{"ImageId", aws.NodeImage, "InstanceType", "m6i.large",
			"UserData", base64.StdEncoding.EncodeToString([]byte(aws.UserData))}, data...)...)
		w.NodeGroup("workers", map[string]any{"amiType": "CUSTOM", "launchTemplate": map[string]any{"name": "managed", "version": "1"}})
	}
}

// managed makes a managed node group with EKS's image.
func managed(change map[string]any) func(*aws.World) {
	fields := map[string]any{"amiType": "AL2023_x86_64_STANDARD", "version": "1.34", "releaseVersion": "1.34.1-20251002", "instanceTypes": []string{"m6i.large", "m5.large"}}
	maps.Copy(fields, change)
	return func(w *aws.World) { w.NodeGroup("workers", fields) }
}

// class is an EC2NodeClass for the sample's network, with some parts replaced.
func class(t *testing.T, pairs ...string) Target {
	t.Helper()
	text := strings.NewReplacer(pairs...).Replace(testkit.Content(t, "testdata/class.yaml"))
	file := filepath.Join(t.TempDir(), "class.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	c, err := ReadNodeClass(file, []byte(text))
	require.NoError(t, err)
	return Target{Cluster: "my-cluster", NodeClass: c}
}

// discovered tags the sample's subnets for Karpenter.
func discovered(w *aws.World) {
	for _, subnet := range []string{"subnet-1", "subnet-2"} {
		w.Do("ec2:CreateTags", "ResourceId.1", subnet, "Tag.1.Key", "karpenter.sh/discovery", "Tag.1.Value", "my-cluster")
	}
}

// detached replaces the node role's managed policies by one inline policy.
func detached(w *aws.World, document string) {
	for _, policy := range sample().profile.value.Role.Policies {
		w.Do("iam:DetachRolePolicy", "RoleName", "node", "PolicyArn", "arn:aws:iam::aws:policy/"+policy)
	}
	w.Do("iam:PutRolePolicy", "RoleName", "node", "PolicyName", "own", "PolicyDocument", document)
}

// enough is a policy with exactly what nodes need.
const enough = `{"Version":"2012-10-17","Statement":[
	{"Effect":"Allow","Action":["ec2:Describe*","ecr:GetAuthorizationToken","ssm:*","ssmmessages:*"],"Resource":"*"},
	{"Effect":"Allow","Action":"eks:DescribeCluster","Resource":"arn:aws:eks:eu-west-1:123456789012:cluster/my-cluster"},
	{"Effect":"Allow","Action":"ecr:*","Resource":"arn:aws:ecr:*:*:repository/*"},
	{"Effect":"Allow","Action":["ec2:*NetworkInterface*","ec2:*PrivateIpAddresses"],"Resource":"arn:aws:ec2:*:*:network-interface/*"}]}`

func onClass(pairs ...string) func(*testing.T, *aws.World) Target {
	return func(t *testing.T, w *aws.World) Target {
		discovered(w)
		return class(t, pairs...)
	}
}

// worlds are those of targets and roles.
func worlds() []scene {
	return []scene{
		{"managed", "EKS's image", of(group, managed(nil)), none, "OK node-group",
			"ACTIVE, AL2023_x86_64_STANDARD, release 1.34.1-20251002, m6i.large m5.large, ON_DEMAND, 1 to 3 nodes, 2 desired", ""},
		{"managed", "own image, no profile", of(group, owns()), none, "OK instance-profile",
			"EKS makes one with the role node", ""},
		{"managed", "profile in the template", of(group, owns("IamInstanceProfile.Name", "nodes")), none, "FAIL instance-profile",
			"the launch template managed has the instance profile nodes: EKS refuses it", "aws ec2 describe-launch-template-versions --launch-template-id lt-2 --versions 1"},
		{"managed", "Spot in the template", of(group, owns("InstanceMarketOptions.MarketType", "spot")), none, "FAIL node-group-template",
			"EKS refuses InstanceMarketOptions", "aws ec2 describe-launch-template-versions"},
		{"managed", "subnet in the template",
			of(group, owns("NetworkInterface.1.DeviceIndex", "0", "NetworkInterface.1.SubnetId", "subnet-1")), none,
			"FAIL node-group-template", "EKS refuses NetworkInterfaces[0].SubnetId",
			"aws ec2 describe-launch-template-versions"},
		{"managed", "image without CUSTOM", of(group, func(w *aws.World) {
			managedTemplate(w, "ImageId", aws.NodeImage)
			managed(map[string]any{"launchTemplate": map[string]any{"name": "managed", "version": "1"}, "instanceTypes": []string{}})(w)
		}), none, "FAIL node-group-template", "the AMI type is AL2023_x86_64_STANDARD instead of CUSTOM", "describe-launch-template-versions"},
		{"managed", "instance type twice", of(group, func(w *aws.World) {
			managedTemplate(w, "InstanceType", "m6i.large")
			managed(map[string]any{"launchTemplate": map[string]any{"name": "managed"}})(w)
		}), none, "FAIL node-group-template", "EKS refuses InstanceType (the node group names m6i.large, m5.large)", "describe-launch-template-versions"},
		{"managed", "shell script as user data", of(group, func(w *aws.World) {
			managedTemplate(w, "UserData", base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\necho hello\n")))
			managed(map[string]any{"launchTemplate": map[string]any{"name": "managed"}})(w)
		}), none, "FAIL user-data", "EKS merges user data with its own only as a MIME message", "eksnode userdata render --family al2023"},
		{"managed", "health issue",
			of(group, managed(map[string]any{"status": "DEGRADED", "health": map[string]any{"issues": []any{map[string]any{"code": "AccessDenied", "message": "nodes cannot authenticate"}}}})),
			none, "FAIL node-group", "the node group is DEGRADED: AccessDenied: nodes cannot authenticate",
			"aws eks describe-nodegroup --cluster-name my-cluster --nodegroup-name workers --query nodegroup.health"},
		{"managed", "arm64 image type", of(group, func(w *aws.World) {
			owns()(w)
			w.Image(aws.NodeImage).Architecture = "arm64"
		}), none, "FAIL image-architecture", "the image is for arm64, but m6i.large runs x86_64", "describe-instance-types"},
		{"managed", "template gone", of(group, func(w *aws.World) {
			owns()(w)
			w.Do("ec2:DeleteLaunchTemplate", "LaunchTemplateName", "managed")
		}), none, "FAIL node-group-template", "does not exist", "aws eks describe-nodegroup"},
		{"Karpenter", "-", onClass(), none, "OK node-class-selectors",
			"subnet-1 subnet-2; sg-cluster; ami-0123456789abcdef0", ""},
		{"Karpenter", "no subnet", onClass("karpenter.sh/discovery: my-cluster", "karpenter.sh/discovery: other"), none,
			"FAIL node-class-selectors",
			"spec.subnetSelectorTerms[0] selects no subnet: tag karpenter.sh/discovery=other", "kubectl get ec2nodeclass own -o yaml"},
		{"Karpenter", "any value", onClass("karpenter.sh/discovery: my-cluster", `karpenter.sh/discovery: "*"`), none,
			"OK node-class-selectors", "subnet-1 subnet-2", ""},
		{"Karpenter", "one term empty", onClass("    - name: cluster", "    - name: cluster\n    - name: other"), none,
			"WARN node-class-selectors", "spec.securityGroupSelectorTerms[1] selects no security group: name other", ""},
		{"Karpenter", "image of nobody", onClass("name: node-*", "name: none-*"), none, "FAIL node-class-selectors",
			"spec.amiSelectorTerms[0] selects no image: name none-*", ""},
		{"Karpenter", "no such role", onClass("role: node", "role: nobody"), none, "FAIL instance-profile",
			"reading the role nobody: NoSuchEntity", "aws iam create-role"},
		{"Karpenter", "another root device", onClass("/dev/xvda", "/dev/sda1"), none, "WARN node-class",
			"no block device has the name /dev/xvda of the image's root device", "kubectl edit ec2nodeclass own"},
		{"Karpenter", "another snapshot", onClass("volumeSize: 40Gi", "snapshotID: snap-9"), none, "FAIL node-class",
			"blockDeviceMappings[0] has the snapshot snap-9, but EC2 starts /dev/xvda only from snap-1", "kubectl edit ec2nodeclass own"},
		{"Karpenter", "EKS's image", onClass("    - name: node-*", "    - alias: al2023@latest"), none,
			"OK kubelet-version", "kubelet 1.34 as the cluster", ""},
		{"Karpenter", "Custom without user data", onClass("AL2023", "Custom"), none, "FAIL user-data",
			"the EC2NodeClass own has no user data, and Karpenter writes none for amiFamily Custom", "kubectl edit ec2nodeclass own"},
		{"own policies", "-", of(instance, func(w *aws.World) { detached(w, enough) }), none, "OK policy-worker",
			"node has ec2:DescribeInstances, eks:DescribeCluster, by its own policies", ""},
		{"an explicit denial", "-",
			of(instance, does("iam:PutRolePolicy", "RoleName", "node", "PolicyName", "deny", "PolicyDocument", `{"Version":"2012-10-17","Statement":{"Effect":"Deny","Action":"ecr:*","Resource":"*"}}`)),
			none, "FAIL policy-registry", "ecr:GetDownloadUrlForLayer (a statement denies it)",
			"aws iam simulate-principal-policy --policy-source-arn " + aws.NodeRole},
		{"a permissions boundary", "-", of(instance, func(w *aws.World) {
			w.Do("iam:CreatePolicy", "PolicyName", "limit", "PolicyDocument", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["ecr:*","ssm:*"],"Resource":"*"}}`)
			w.Do("iam:PutRolePermissionsBoundary", "RoleName", "node", "PermissionsBoundary", "arn:aws:iam::"+aws.Account+":policy/limit")
		}), none, "FAIL policy-worker", "ec2:DescribeInstances, eks:DescribeCluster (the permissions boundary does not allow it)", "simulate-principal-policy"},
		{"a service control policy", "-", of(instance, func(w *aws.World) {
			w.Guardrails = []string{`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":"ec2:DescribeInstances","Resource":"*"}]}`}
		}), none, "FAIL policy-worker", "ec2:DescribeInstances (a policy of the organization does not allow it)", "simulate-principal-policy"},
		{"an unknown condition", "-", of(instance, func(w *aws.World) {
			detached(w, strings.Replace(enough, `"Resource":"*"}`, `"Resource":"*","Condition":{"StringEquals":{"aws:SourceVpc":"vpc-1"}}}`, 1))
		}), none, "WARN policy-worker", "the condition keys aws:SourceVpc decide, and the simulation does not know them", "simulate-principal-policy"},
		{"only EKS's minimal policy", "-", of(instance, func(w *aws.World) {
			w.Do("iam:DetachRolePolicy", "RoleName", "node", "PolicyArn", "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy")
			w.Do("iam:AttachRolePolicy", "RoleName", "node", "PolicyArn", "arn:aws:iam::aws:policy/AmazonEKSWorkerNodeMinimalPolicy")
			w.Do("iam:DetachRolePolicy", "RoleName", "node", "PolicyArn", "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
		}), none, "FAIL policy-worker", "node lacks ec2:DescribeInstances", "AmazonEKSWorkerNodePolicy"},
		{"names only", "-", of(instance, func(w *aws.World) {
			detached(w, enough)
			w.Deny(simulate)
		}), none, "WARN policy-worker", "node has no policy AmazonEKSWorkerNodePolicy; preflight sees permissions of other policies only with iam:SimulatePrincipalPolicy", "aws iam attach-role-policy --role-name node"},
		{"CNI by pod identity", "-", of(instance, byPodIdentity), none, "OK policy-cni",
			"cni has AmazonEKS_CNI_Policy, by pod identity", ""},
		{"CNI by pod identity", "no agent", of(instance, func(w *aws.World) {
			byPodIdentity(w)
			delete(w.Addons, "eks-pod-identity-agent")
		}), none, "WARN policy-cni", "EKS does not manage the add-on eks-pod-identity-agent", "aws eks create-addon --cluster-name my-cluster --addon-name eks-pod-identity-agent"},
		{"CNI by pod identity", "other trust", of(instance, func(w *aws.World) {
			byPodIdentity(w)
			w.Do("iam:UpdateAssumeRolePolicy", "RoleName", "cni", "PolicyDocument", strings.Replace(podsTrust, `,"sts:TagSession"`, "", 1))
		}), none, "FAIL policy-cni", "the VPC CNI's role cni does not trust pods.eks.amazonaws.com for sts:AssumeRole and sts:TagSession", "aws iam get-role --role-name cni"},
		{"CNI by pod identity", "no policy", of(instance, func(w *aws.World) {
			byPodIdentity(w)
			w.Do("iam:DetachRolePolicy", "RoleName", "cni", "PolicyArn", "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
		}), none, "FAIL policy-cni", "cni lacks ec2:DescribeInstances", "aws iam attach-role-policy --role-name cni"},
		{"CNI by pod identity", "no role", of(instance, func(w *aws.World) {
			byPodIdentity(w)
			w.Do("iam:DetachRolePolicy", "RoleName", "cni", "PolicyArn", "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
			w.Do("iam:DeleteRole", "RoleName", "cni")
		}), none, "FAIL policy-cni", "the VPC CNI's role " + cniRole + " (pod identity) does not exist", "aws eks list-pod-identity-associations"},
		{"CNI by pod identity", "node without it", of(instance, func(w *aws.World) {
			byPodIdentity(w)
			detached(w, enough)
		}), none, "FAIL policy-worker", "node lacks eks-auth:AssumeRoleForPodIdentity", "aws iam attach-role-policy --role-name node"},
		{"CNI by pod identity", "role with a path", of(instance, func(w *aws.World) {
			w.Do("iam:CreateRole", "RoleName", "cni", "Path", "/eks/", "AssumeRolePolicyDocument", podsTrust)
			w.Do("iam:AttachRolePolicy", "RoleName", "cni", "PolicyArn", "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy")
			w.Associations = []aws.Association{{ID: "a-1", Namespace: "kube-system", Account: "aws-node", Role: "arn:aws:iam::" + aws.Account + ":role/eks/cni"}}
			w.Addons["eks-pod-identity-agent"] = map[string]any{"addonVersion": "v1.3.8-eksbuild.2"}
		}), none, "OK policy-cni", "cni has AmazonEKS_CNI_Policy, by pod identity", ""},
		{"CNI by pod identity", "role of another account", of(instance, func(w *aws.World) {
			byPodIdentity(w)
			w.Associations[0].Target = "arn:aws:iam::210987654321:role/cni"
		}), none, "WARN policy-cni", "the VPC CNI uses the role arn:aws:iam::210987654321:role/cni (pod identity) of another account, which preflight cannot read", ""},
		{"CNI by IRSA", "-", func(t *testing.T, w *aws.World) Target { byIRSA(t, w, cniAccount); return instance }, none,
			"OK policy-cni", "cni has AmazonEKS_CNI_Policy, by IRSA", ""},
		{"CNI by IRSA", "another account", func(t *testing.T, w *aws.World) Target {
			byIRSA(t, w, "system:serviceaccount:kube-system:other")
			return instance
		}, none, "FAIL policy-cni", "the VPC CNI's role cni demands oidc.eks.eu-west-1.amazonaws.com/id/ABC:sub to be system:serviceaccount:kube-system:other, but the VPC CNI has " + cniAccount, "aws iam get-role --role-name cni"},
		{"CNI by IRSA", "no provider", func(t *testing.T, w *aws.World) Target {
			byIRSA(t, w, cniAccount)
			w.Do("iam:DeleteOpenIDConnectProvider", "OpenIDConnectProviderArn", "arn:aws:iam::"+aws.Account+":oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/ABC")
			return instance
		}, none, "FAIL policy-cni", "needs the cluster's OpenID Connect provider, which IAM does not have", "aws iam create-open-id-connect-provider --url https://oidc.eks.eu-west-1.amazonaws.com/id/ABC --client-id-list sts.amazonaws.com"},
		{"an image and a role", "-", func(*testing.T, *aws.World) Target {
			return Target{Cluster: "my-cluster", AMI: aws.NodeImage, Role: "node"}
		}, none, "OK access", "by the access entry of type EC2_LINUX", ""},
		{"another role than the profile's", "-", func(_ *testing.T, w *aws.World) Target {
			w.Do("iam:CreateRole", "RoleName", "other", "AssumeRolePolicyDocument", ec2Trust)
			return Target{Cluster: "my-cluster", Template: "nodes", TemplateVersion: "$Default", Role: "other"}
		}, none, "FAIL instance-profile", "the instance profile nodes has the role node, but --role names other", "aws iam get-instance-profile"},
	}
}

// A node group that does not exist is one error, not one for every check. So is a
// role of another account.
func TestMissingTargetsAreOneError(t *testing.T) {
	w := served(t)
	_, err := Run(t.Context(), connect(t), Target{Cluster: "my-cluster", NodeGroup: "other"})
	require.ErrorContains(t, err, "describing the node group other of my-cluster: ResourceNotFoundException: ")
	require.ErrorContains(t, err, "; `aws eks list-nodegroups --cluster-name my-cluster` lists the node groups")
	_, err = Run(t.Context(), connect(t), Target{Cluster: "my-cluster", AMI: aws.NodeImage, Role: "arn:aws:iam::210987654321:role/node"})
	require.EqualError(t, err, "role: arn:aws:iam::210987654321:role/node belongs to the account 210987654321, but the credentials are for 123456789012; instances can use only roles of their own account")
	assert.Zero(t, w.Count()["iam:GetRole"])
	r := ask(t, Target{Cluster: "my-cluster", AMI: aws.NodeImage, Role: "nobody"})
	assert.Equal(t, 1, r.Count(Fail), "%+v", r.Findings)
	assert.Zero(t, r.Count(Unknown), "%+v", r.Findings)
	assert.Contains(t, finding(t, r, "instance-profile").Evidence, "reading the role nobody: NoSuchEntity")
}
