package awsapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ImageActions are the permissions for listing, comparing, publishing and retiring
// images, and no others. A test compares them with the calls.
func ImageActions() []string {
	return []string{
		"autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeLaunchConfigurations",
		"ec2:DeleteSnapshot", "ec2:DeregisterImage", "ec2:DescribeFleets", "ec2:DescribeImageAttribute", "ec2:DescribeImages", "ec2:DescribeInstances",
		"ec2:DescribeLaunchTemplateVersions", "ec2:DescribeLaunchTemplates", "ec2:DescribeRegions", "ec2:DescribeSnapshotAttribute", "ec2:DescribeSnapshots",
		"ec2:DescribeSpotFleetRequests",
		"ec2:DescribeSpotInstanceRequests", "ec2:EnableImageDeprecation",
		"eks:DescribeNodegroup", "eks:ListClusters", "eks:ListNodegroups",
		"ssm:DescribeParameters", "ssm:GetParameter", "ssm:GetParameterHistory", "ssm:GetParameters", "ssm:PutParameter",
	}
}

// statement is a statement of an IAM policy that grants permissions.
type statement struct {
	Sid, Effect string
	Action      []string
	Resource    oneOrMore
	Condition   map[string]map[string]string `json:",omitempty"`
}

// oneOrMore is a list that IAM also writes as one text.
type oneOrMore []string

// MarshalJSON implements json.Marshaler.
func (o oneOrMore) MarshalJSON() ([]byte, error) {
	if len(o) == 1 {
		return json.Marshal(o[0])
	}
	return json.Marshal([]string(o))
}

// Policy is an IAM policy that grants permissions.
func Policy(sid string, actions []string) (string, error) {
	return policy([]statement{{Sid: sid, Effect: "Allow", Action: actions, Resource: oneOrMore{"*"}}})
}

func policy(statements []statement) (string, error) {
	text, err := json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", statements}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the policy: %w", err)
	}
	return string(text) + "\n", nil
}

// Scope limits a policy to regions and KMS keys. The zero Scope is all regions of the
// partition aws and all keys.
type Scope struct {
	// Regions are regions of one partition.
	Regions []string
	// Keys are ARNs of KMS keys.
	Keys []string
}

// partitions are the partitions of regions with a prefix, other than aws
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html).
var partitions = []struct{ prefix, name string }{
	{"cn-", "aws-cn"}, {"us-gov-", "aws-us-gov"}, {"eusc-", "aws-eusc"}, {"us-iso-", "aws-iso"}, {"us-isob-", "aws-iso-b"},
	{"eu-isoe-", "aws-iso-e"}, {"us-isof-", "aws-iso-f"},
}

func partitionOf(region string) string {
	for _, p := range partitions {
		if strings.HasPrefix(region, p.prefix) {
			return p.name
		}
	}
	return "aws"
}

func (s Scope) arns(service, account string, resources ...string) oneOrMore {
	regions, partition := s.Regions, "aws"
	if len(regions) == 0 {
		regions = []string{"*"}
	} else {
		partition = partitionOf(regions[0])
	}
	var all oneOrMore
	for _, region := range regions {
		for _, resource := range resources {
			all = append(all, "arn:"+partition+":"+service+":"+region+":"+account+":"+resource)
		}
	}
	return all
}

// snapshots and images are the ARNs of all snapshots and images. They have no account
// (https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticblockstore.html).
func (s Scope) snapshots() oneOrMore { return s.arns("ec2", "", "snapshot/*") }

func (s Scope) images() oneOrMore { return s.arns("ec2", "", "image/*") }

func (s Scope) keys() oneOrMore {
	if len(s.Keys) > 0 {
		return s.Keys
	}
	return s.arns("kms", "*", "key/*")
}

// byEBS limits permissions for KMS to calls that EBS makes for the caller. EBS calls
// KMS as EC2: the key policy of the default key aws/ebs allows nothing else
// (https://docs.aws.amazon.com/kms/latest/developerguide/services-ebs.html).
func byEBS() map[string]map[string]string {
	return map[string]map[string]string{"StringLike": {"kms:ViaService": "ec2.*"}}
}

func allow(sid string, on oneOrMore, actions ...string) statement {
	return statement{Sid: sid, Effect: "Allow", Action: actions, Resource: on}
}

// find are the permissions for finding an image and its snapshots. EC2's descriptions
// cannot be limited to resources
// (https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html).
func (s Scope) find(more ...string) []statement {
	return []statement{
		allow("EksnodeFind", oneOrMore{"*"}, append([]string{"ec2:DescribeImages", "ec2:DescribeSnapshots"}, more...)...),
		allow("EksnodeParameters", s.arns("ssm", "*", "parameter/*"), "ssm:GetParameter"),
	}
}

// read are the permissions for reading snapshots. EBS decrypts with the caller's
// permission (https://docs.aws.amazon.com/ebs/latest/userguide/ebsapi-faq.html).
func (s Scope) read(actions ...string) []statement {
	decrypt := allow("EksnodeDecrypt", s.keys(), "kms:Decrypt")
	decrypt.Condition = byEBS()
	return append(s.find(), allow("EksnodeReadBlocks", s.snapshots(), actions...), decrypt)
}

func (s Scope) readForAudit() []statement {
	return s.read("ebs:GetSnapshotBlock", "ebs:ListSnapshotBlocks")
}

func (s Scope) readForDiff() []statement {
	return s.read("ebs:GetSnapshotBlock", "ebs:ListChangedBlocks", "ebs:ListSnapshotBlocks")
}

// encryptActions are the permissions for a KMS key with which EBS encrypts
// (https://docs.aws.amazon.com/ebs/latest/userguide/ebsapi-permissions.html).
func encryptActions() []string {
	return []string{"kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncrypt*"}
}

// importing are the permissions for importing a disk: the snapshot with its parent, the
// AMI, copies, sharing, and the removal of an import that fails.
func (s Scope) importing() []statement {
	encrypt := allow("EksnodeEncrypt", s.keys(), encryptActions()...)
	encrypt.Condition = byEBS()
	grant := allow("EksnodeGrant", s.keys(), "kms:CreateGrant")
	grant.Condition = byEBS()
	grant.Condition["Bool"] = map[string]string{"kms:GrantIsForAWSResource": "true"}
	both := append(s.images(), s.snapshots()...)
	return append(s.find("ec2:DescribeImageAttribute", "ec2:DescribeRegions", "ec2:GetEbsDefaultKmsKeyId", "ec2:GetEbsEncryptionByDefault", "ec2:GetImageBlockPublicAccessState",
		"servicequotas:GetAWSDefaultServiceQuota", "servicequotas:GetServiceQuota"),
		allow("EksnodeBlocks", s.snapshots(), "ebs:CompleteSnapshot", "ebs:GetSnapshotBlock", "ebs:ListSnapshotBlocks", "ebs:PutSnapshotBlock", "ebs:StartSnapshot"),
		allow("EksnodeSnapshots", s.snapshots(), "ec2:DeleteSnapshot", "ec2:ModifySnapshotAttribute"),
		allow("EksnodeImages", s.images(), "ec2:DeregisterImage", "ec2:EnableImageDeprecation", "ec2:ModifyImageAttribute"),
		allow("EksnodeRegister", both, "ec2:CopyImage", "ec2:CreateTags", "ec2:RegisterImage"),
		allow("EksnodeDescribeKeys", s.keys(), "kms:DescribeKey"), encrypt, grant)
}

func actionsOf(statements []statement) []string {
	var all []string
	for _, s := range statements {
		all = append(all, s.Action...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ImportActions are the permissions for importing a disk as an AMI. EC2 and EBS need
// ec2:CreateTags and those of KMS for calls with other names.
func ImportActions() []string { return actionsOf(Scope{}.importing()) }

// SnapshotReadActions are the permissions for auditing and exporting an AMI or a
// snapshot.
func SnapshotReadActions() []string { return actionsOf(Scope{}.readForAudit()) }

// SnapshotDiffActions are the permissions for comparing the content of two AMIs.
func SnapshotDiffActions() []string { return actionsOf(Scope{}.readForDiff()) }

// ImportPolicy is an IAM policy with ImportActions.
func ImportPolicy(s Scope) (string, error) { return policy(s.importing()) }

// SnapshotReadPolicy is an IAM policy with SnapshotReadActions.
func SnapshotReadPolicy(s Scope) (string, error) { return policy(s.readForAudit()) }

// SnapshotDiffPolicy is an IAM policy with SnapshotDiffActions.
func SnapshotDiffPolicy(s Scope) (string, error) { return policy(s.readForDiff()) }
