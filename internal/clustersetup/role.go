package clustersetup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// EC2Service is the principal of EC2 in a partition
// (https://github.com/eksctl-io/eksctl/blob/main/pkg/apis/eksctl.io/v1alpha5/partitions.go).
func EC2Service(partition string) string {
	names := map[string]string{"aws-cn": "ec2.amazonaws.com.cn", "aws-iso": "ec2.c2s.ic.gov",
		"aws-iso-b": "ec2.sc2s.sgov.gov"}
	return cmp.Or(names[partition], "ec2.amazonaws.com")
}

// RegistryPolicies and SessionPolicies are AWS's managed policies for the nodes' role: for
// pulling images, and for Session Manager. One of each is enough. The first is attached
// where the role has none.
var (
	RegistryPolicies = []string{
		"AmazonEC2ContainerRegistryPullOnly", "AmazonEC2ContainerRegistryReadOnly",
		"AmazonEC2ContainerRegistryPowerUser", "AmazonEC2ContainerRegistryFullAccess",
	}
	SessionPolicies = []string{"AmazonSSMManagedInstanceCore", "AmazonSSMManagedEC2InstanceDefaultPolicy",
		"AmazonEC2RoleforSSM"}
)

// foreign says that the role is in another account than the cluster.
func (n Node) foreign() bool {
	_, account, _ := n.role()
	return n.Found.account() != "" && n.Found.account() != account
}

// inOtherAccount names the account in which a script must run.
func (n Node) inOtherAccount(s *script) {
	if _, account, _ := n.role(); n.foreign() {
		s.comment("The role is in the account %s, and the cluster is in %s. Nothing was read there. Run the commands "+
			"with credentials of %s.", account, n.Found.account(), account)
	}
}

func (n Node) profileName() string {
	_, _, name := n.role()
	switch {
	case n.Profile != "":
		return n.Profile
	case len(n.Found.Profiles) > 0:
		return n.Found.Profiles[0]
	}
	return name
}

// trust adds what lets a service assume a role: a new role, or a statement in the
// trust policy of an existing one.
func (s *script) trust(found *awsapi.Role, name, path, service string, actions ...string) error {
	ours := allow("Principal", map[string]string{"Service": service}, actions...)
	if found == nil || found.Name == "" {
		words := []string{"aws", "iam", "create-role", "--role-name", name}
		if path != "" {
			words = append(words, "--path", path)
		}
		s.run(append(words, "--assume-role-policy-document", newDocument(ours))...)
		s.run("aws", "iam", "wait", "role-exists", "--role-name", name)
		return nil
	}
	d, err := readDocument(found.Trust)
	if err != nil {
		return fmt.Errorf("reading the trust policy of the role %s: %w", name, err)
	}
	missing, denied := d.Missing(actions, func(one Statement) bool {
		return one.Principal.Is(service) || strings.HasPrefix(service, "ec2.") && one.Principal.Is("ec2.amazonaws.com")
	})
	switch {
	case denied:
		return blocked("the trust policy of the role %s denies %s to %s: see `aws iam get-role --role-name %s`, or "+
			"use another role", name, strings.Join(actions, " and "), service, name)
	case len(missing) == 0:
		return nil
	}
	text, err := Extended(found.Trust, ours)
	if err != nil {
		return fmt.Errorf("writing the trust policy of the role %s: %w", name, err)
	}
	s.comment("The role exists. Its trust policy keeps its statements and gets one for %s.", service)
	s.run("aws", "iam", "update-assume-role-policy", "--role-name", name, "--policy-document", text)
	return nil
}

func writeRole(n Node) (string, error) {
	partition, _, name := n.role()
	var s script
	n.inOtherAccount(&s)
	if err := s.trust(n.Found.Role, name, n.path(), EC2Service(partition), "sts:AssumeRole"); err != nil {
		return "", err
	}
	profile := n.profileName()
	add := func() {
		s.run("aws", "iam", "add-role-to-instance-profile", "--instance-profile-name", profile, "--role-name", name)
	}
	switch there := n.Found.Profile; {
	case slices.Contains(n.Found.Profiles, profile):
	case there != nil && there.Role != nil && there.Role.Name == name:
	case there != nil && there.Role != nil:
		return "", blocked("the instance profile %s has the role %s, which instances may use: "+
			"name another one with --instance-profile", profile, there.Role.Name)
	case there != nil && there.Name != "":
		add()
	default:
		s.run("aws", "iam", "create-instance-profile", "--instance-profile-name", profile)
		s.run("aws", "iam", "wait", "instance-profile-exists", "--instance-profile-name", profile)
		add()
	}
	return s.done("the role %s trusts EC2, and the instance profile %s has the role.", name, profile), nil
}

func has(r *awsapi.Role, names ...string) bool {
	return r != nil && slices.ContainsFunc(names, func(name string) bool { return slices.Contains(r.Policies, name) })
}

func (s *script) attach(role, policy string) {
	s.run("aws", "iam", "attach-role-policy", "--role-name", role, "--policy-arn", policy)
}

func writePolicies(n Node) (string, error) {
	partition, _, name := n.role()
	var s script
	n.inOtherAccount(&s)
	needed := [][]string{{"AmazonEKSWorkerNodePolicy", "AmazonEKSWorkerNodeMinimalPolicy"}, RegistryPolicies}
	if n.SSM {
		needed = append(needed, SessionPolicies)
	}
	for _, names := range needed {
		if !has(n.Found.Role, names...) {
			s.attach(name, "arn:"+partition+":iam::aws:policy/"+names[0])
		}
	}
	if n.CNIOnNode {
		if err := n.cniPolicy(&s, name, n.Found.Role); err != nil {
			return "", err
		}
	}
	return s.done("the role %s has the policies.", name), nil
}

// CNIRole is the name of the VPC CNI's own role. The AWS console proposes the same
// name, and all clusters of an account may share the role.
const CNIRole = "AmazonEKSPodIdentityAmazonVPCCNIRole"

// IPv6Policy is the name of the policy for the VPC CNI in IPv6 clusters. AWS has no
// managed policy for this
// (https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html).
const IPv6Policy = "AmazonEKS_CNI_IPv6_Policy"

const podIdentity = "pods.eks.amazonaws.com"

// IPv6Actions are the permissions of the VPC CNI in IPv6 clusters. The VPC CNI
// 1.22.1 and later does not start without ec2:DescribeSubnets and
// ec2:DescribeSecurityGroups
// (https://github.com/aws/amazon-vpc-cni-k8s/blob/master/docs/iam-policy.md).
var IPv6Actions = []string{
	"ec2:AssignIpv6Addresses", "ec2:DescribeInstances", "ec2:DescribeTags", "ec2:DescribeNetworkInterfaces",
	"ec2:DescribeInstanceTypes", "ec2:DescribeSubnets", "ec2:DescribeSecurityGroups",
}

func (n Node) cniPolicy(s *script, name string, role *awsapi.Role) error {
	partition, account, _ := n.role()
	if of := n.Found.account(); of != "" && name == CNIRole {
		account = of
	}
	policy := "arn:" + partition + ":iam::aws:policy/AmazonEKS_CNI_Policy"
	known := "AmazonEKS_CNI_Policy"
	if n.ipv6() {
		policy, known = "arn:"+partition+":iam::"+account+":policy/"+IPv6Policy, IPv6Policy
		if err := n.ipv6Policy(s, partition, policy); err != nil {
			return err
		}
	}
	if !has(role, known) {
		s.attach(name, policy)
	}
	return nil
}

func ipv6Statements(partition string) []map[string]any {
	return []map[string]any{allow("Resource", "*", IPv6Actions...),
		allow("Resource", "arn:"+partition+":ec2:*:*:network-interface/*", "ec2:CreateTags")}
}

// IPv6Document is the policy for the VPC CNI in IPv6 clusters.
func IPv6Document(partition string) string { return newDocument(ipv6Statements(partition)...) }

// ipv6Policy makes the policy, or completes an existing one.
func (n Node) ipv6Policy(s *script, partition, arn string) error {
	there := n.Found.IPv6Policy
	if there == nil || *there == "" {
		s.run("aws", "iam", "create-policy", "--policy-name", IPv6Policy, "--policy-document", IPv6Document(partition))
		return nil
	}
	d, err := readDocument(*there)
	if err != nil {
		return fmt.Errorf("reading the policy %s: %w", IPv6Policy, err)
	}
	var lacks []string
	var statements []any
	for _, ours := range ipv6Statements(partition) {
		missing, denied := d.Missing(ours["Action"].([]string), func(Statement) bool { return true })
		if denied {
			return blocked("the policy %s denies permissions that the VPC CNI needs: see `aws iam get-policy "+
				"--policy-arn %s`", IPv6Policy, arn)
		}
		if len(missing) > 0 {
			lacks = append(lacks, missing...)
			statements = append(statements, allow("Resource", ours["Resource"], missing...))
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	text, err := Extended(*there, statements...)
	if err != nil {
		return fmt.Errorf("writing the policy %s: %w", IPv6Policy, err)
	}
	s.comment("The policy %s exists without %s. It keeps its statements and gets more for them.", IPv6Policy,
		strings.Join(lacks, ", "))
	s.run("aws", "iam", "create-policy-version", "--policy-arn", arn, "--set-as-default", "--policy-document", text)
	return nil
}

// writeCNIRole gives the VPC CNI a role of its own by EKS Pod Identity. A role that
// the VPC CNI has already stays.
func writeCNIRole(n Node) (string, error) {
	partition, account, _ := n.role()
	account = cmp.Or(n.Found.account(), account)
	var s script
	cni := n.Found.CNI
	if cni == nil {
		cni = &CNI{}
	}
	switch {
	case n.CNIOnNode:
		return "", ErrNotNeeded
	case cni.IRSA != "":
		return s.done("the add-on vpc-cni has the role %s by its service account. That role stays.", cni.IRSA), nil
	case n.Found.NoPodIdentity() != "":
		return "", blocked("EKS Pod Identity does not work here, because %s: use --cni-permissions node",
			n.Found.NoPodIdentity())
	}
	if n.Found.Cluster.AutoMode && !cni.Addon {
		s.comment("EKS Auto Mode gives only its own nodes a network. Other nodes need the VPC CNI, such as the " +
			"add-on vpc-cni.")
	}
	if !cni.Agent {
		s.run("aws", "eks", "create-addon", "--cluster-name", n.Cluster, "--addon-name", "eks-pod-identity-agent")
	}
	if cni.PodIdentity != "" {
		return s.done("the VPC CNI has the role %s by pod identity. That role stays.", cni.PodIdentity), nil
	}
	role := "arn:" + partition + ":iam::" + account + ":role/" + CNIRole
	if err := s.trust(n.Found.CNIRole, CNIRole, "", podIdentity, "sts:AssumeRole", "sts:TagSession"); err != nil {
		return "", err
	}
	if err := n.cniPolicy(&s, CNIRole, n.Found.CNIRole); err != nil {
		return "", err
	}
	if !cni.Addon {
		s.comment("The VPC CNI is no EKS add-on here. If its service account aws-node has the annotation " +
			"eks.amazonaws.com/role-arn, leave out the next command.")
		s.run("aws", "eks", "create-pod-identity-association", "--cluster-name", n.Cluster, "--namespace",
			"kube-system", "--service-account", "aws-node", "--role-arn", role)
		return s.done(""), nil
	}
	// The values are repeated, because an update without them may reset them.
	words := []string{"aws", "eks", "update-addon", "--cluster-name", n.Cluster, "--addon-name", "vpc-cni",
		"--resolve-conflicts", "PRESERVE"}
	if cni.Configuration != "" {
		words = append(words, "--configuration-values", cni.Configuration)
	}
	s.run(append(words, "--pod-identity-associations", "serviceAccount=aws-node,roleArn="+role)...)
	return s.done(""), nil
}
