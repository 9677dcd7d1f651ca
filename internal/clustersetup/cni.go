package clustersetup

import (
	"fmt"
	"strings"
)

// CNIRole is the name of the VPC CNI's own role. The AWS console proposes the same
// name, and all clusters of an account may share the role.
const CNIRole = "AmazonEKSPodIdentityAmazonVPCCNIRole"

// IPv6Policy is the name of the policy for the VPC CNI in IPv6 clusters. AWS has no
// managed policy for this
// (https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html).
const IPv6Policy = "AmazonEKS_CNI_IPv6_Policy"

// podIdentity is the principal of EKS Pod Identity in all partitions.
const podIdentity = "pods.eks.amazonaws.com"

// ipv6Actions are the permissions of the VPC CNI in IPv6 clusters. The VPC CNI
// 1.22.1 and later does not start without ec2:DescribeSubnets and
// ec2:DescribeSecurityGroups
// (https://github.com/aws/amazon-vpc-cni-k8s/blob/master/docs/iam-policy.md).
var ipv6Actions = []string{
	"ec2:AssignIpv6Addresses", "ec2:DescribeInstances", "ec2:DescribeTags", "ec2:DescribeNetworkInterfaces", "ec2:DescribeInstanceTypes",
	"ec2:DescribeSubnets", "ec2:DescribeSecurityGroups",
}

// cniPolicy attaches the VPC CNI's policy to a role of an account.
func (n Node) cniPolicy(s *script, name string, role *Role) error {
	partition, account, _ := n.role()
	if n.Found.Account != "" && name == CNIRole {
		account = n.Found.Account
	}
	policy := "arn:" + partition + ":iam::aws:policy/AmazonEKS_CNI_Policy"
	known := "AmazonEKS_CNI_Policy"
	if n.IPv6 {
		policy, known = "arn:"+partition+":iam::"+account+":policy/"+IPv6Policy, IPv6Policy
		if err := n.ipv6Policy(s, partition, policy); err != nil {
			return err
		}
	}
	if !role.has(known) {
		s.attach(name, policy)
	}
	return nil
}

// ipv6Policy makes the policy, or completes an existing one.
func (n Node) ipv6Policy(s *script, partition, arn string) error {
	interfaces := "arn:" + partition + ":ec2:*:*:network-interface/*"
	there := n.Found.IPv6Policy
	if there == nil || !there.Exists {
		s.run("aws", "iam", "create-policy", "--policy-name", IPv6Policy,
			"--policy-document", newDocument(allow("Resource", "*", ipv6Actions...), allow("Resource", interfaces, "ec2:CreateTags")))
		return nil
	}
	d, err := readDocument(there.Document)
	if err != nil {
		return fmt.Errorf("reading the policy %s: %w", IPv6Policy, err)
	}
	missing, denied := d.missing(append([]string{"ec2:CreateTags"}, ipv6Actions...), func(statement) bool { return true })
	switch {
	case denied:
		return blocked("the policy %s denies permissions that the VPC CNI needs: see `aws iam get-policy --policy-arn %s`", IPv6Policy, arn)
	case len(missing) == 0:
		return nil
	}
	text, err := d.with(allow("Resource", "*", missing...))
	if err != nil {
		return fmt.Errorf("writing the policy %s: %w", IPv6Policy, err)
	}
	s.comment("The policy %s exists without %s. It keeps its statements and gets one for them.", IPv6Policy, strings.Join(missing, ", "))
	s.run("aws", "iam", "create-policy-version", "--policy-arn", arn, "--set-as-default", "--policy-document", text)
	return nil
}

// writeCNIRole gives the VPC CNI a role of its own by EKS Pod Identity. A role that
// the VPC CNI has already stays.
func writeCNIRole(n Node) (string, error) {
	partition, account, _ := n.role()
	if n.Found.Account != "" {
		account = n.Found.Account
	}
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
	case n.Found.NoPodIdentity != "":
		return "", blocked("EKS Pod Identity does not work here, because %s: use --cni-permissions node", n.Found.NoPodIdentity)
	}
	if n.Found.AutoMode && !cni.Addon {
		s.comment("EKS Auto Mode gives only its own nodes a network. Other nodes need the VPC CNI, such as the add-on vpc-cni.")
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
		s.comment("The VPC CNI is no EKS add-on here. If its service account aws-node has the annotation eks.amazonaws.com/role-arn, leave out the next command.")
		s.run("aws", "eks", "create-pod-identity-association", "--cluster-name", n.Cluster, "--namespace", "kube-system", "--service-account", "aws-node", "--role-arn", role)
		return s.done(""), nil
	}
	// The values are repeated, because an update without them may reset them.
	words := []string{"aws", "eks", "update-addon", "--cluster-name", n.Cluster, "--addon-name", "vpc-cni", "--resolve-conflicts", "PRESERVE"}
	if cni.Configuration != "" {
		words = append(words, "--configuration-values", cni.Configuration)
	}
	s.run(append(words, "--pod-identity-associations", "serviceAccount=aws-node,roleArn="+role)...)
	return s.done(""), nil
}
