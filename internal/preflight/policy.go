package preflight

import "github.com/eksnode/packer-plugin-eksnode/internal/awsapi"

// Actions are the permissions that a preflight needs, and no others. A test
// compares them with its calls.
func Actions() []string {
	return []string{
		"ec2:DescribeDhcpOptions", "ec2:DescribeImages", "ec2:DescribeInstanceAttribute", "ec2:DescribeInstanceStatus", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeInstances",
		"ec2:DescribeLaunchTemplateVersions", "ec2:DescribeNatGateways", "ec2:DescribeNetworkAcls", "ec2:DescribeRouteTables", "ec2:DescribeSecurityGroups", "ec2:DescribeSnapshots", "ec2:DescribeSubnets",
		"ec2:DescribeVpcAttribute", "ec2:DescribeVpcEndpoints", "ec2:DescribeVpcs", "ec2:GetEbsDefaultKmsKeyId", "ec2:GetEbsEncryptionByDefault",
		"eks:DescribeAccessEntry", "eks:DescribeAddon", "eks:DescribeCluster", "eks:DescribeNodegroup", "eks:DescribePodIdentityAssociation",
		"eks:ListAddons", "eks:ListClusters", "eks:ListPodIdentityAssociations",
		"iam:GetInstanceProfile", "iam:GetOpenIDConnectProvider", "iam:GetRole", "iam:ListAttachedRolePolicies", "iam:SimulatePrincipalPolicy",
		"kms:DescribeKey", "kms:GetKeyPolicy", "kms:ListGrants",
		"route53:ListHostedZonesByVPC",
		"route53:ListResourceRecordSets", // for a zone that hides names of AWS
		"ssm:GetParameter",               // for a launch template that names a parameter
		"sts:GetCallerIdentity",
	}
}

// Policy is the IAM policy with those permissions.
func Policy() (string, error) { return awsapi.Policy("EksnodePreflight", Actions()) }
