package awsapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"golang.org/x/sync/errgroup"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
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
	// Sign adds the permissions for statements to an import, and Approve those for watermarks.
	Sign, Approve bool
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
func (s Scope) read(find []statement, actions ...string) []statement {
	decrypt := allow("EksnodeDecrypt", s.keys(), "kms:Decrypt")
	decrypt.Condition = byEBS()
	return append(find, allow("EksnodeReadBlocks", s.snapshots(), actions...), decrypt)
}

func (s Scope) readForAudit() []statement {
	return s.read(s.find("ec2:GetImageAncestry"), readActions()...)
}

func readActions() []string { return []string{"ebs:GetSnapshotBlock", "ebs:ListSnapshotBlocks"} }

func (s Scope) readForDiff() []statement {
	return s.read(s.find(), "ebs:GetSnapshotBlock", "ebs:ListChangedBlocks", "ebs:ListSnapshotBlocks")
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
	var more []statement
	if s.Sign {
		more = append(more, allow("EksnodeSign", s.keys(), SignActions()...))
	}
	if s.Approve {
		more = append(more, allow("EksnodeApprove", s.images(), "ec2:AttachImageWatermark"))
	}
	return append(append(s.find("ec2:DescribeImageAttribute", "ec2:DescribeRegions", "ec2:GetEbsDefaultKmsKeyId",
		"ec2:GetEbsEncryptionByDefault", "ec2:GetImageBlockPublicAccessState",
		"servicequotas:GetAWSDefaultServiceQuota", "servicequotas:GetServiceQuota"),
		allow("EksnodeBlocks", s.snapshots(), "ebs:CompleteSnapshot", "ebs:GetSnapshotBlock", "ebs:ListSnapshotBlocks", "ebs:PutSnapshotBlock", "ebs:StartSnapshot"),
		allow("EksnodeSnapshots", s.snapshots(), "ec2:DeleteSnapshot", "ec2:ModifySnapshotAttribute"),
		allow("EksnodeImages", s.images(), "ec2:DeregisterImage", "ec2:EnableImageDeprecation", "ec2:ModifyImageAttribute"),
		allow("EksnodeRegister", both, "ec2:CopyImage", "ec2:CreateTags", "ec2:RegisterImage"),
		allow("EksnodeDescribeKeys", s.keys(), "kms:DescribeKey"), encrypt, grant), more...)
}

// AttestPolicy is an IAM policy for signing and verifying statements about images.
func AttestPolicy(s Scope) (string, error) {
	return policy(append(s.readForAudit(), allow("EksnodeSign", s.keys(), SignActions()...)))
}

// ApprovePolicy is an IAM policy for approving and revoking images, and for the check of
// the settings.
func ApprovePolicy(s Scope) (string, error) {
	return policy(append(s.readForAudit(), allow("EksnodeSign", s.keys(), SignActions()...),
		allow("EksnodeApprove", s.images(), "ec2:AttachImageWatermark", "ec2:CreateTags", "ec2:DetachImageWatermark"),
		allow("EksnodeUsers", oneOrMore{"*"}, "autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeLaunchConfigurations",
			"ec2:DescribeFleets", "ec2:DescribeInstances", "ec2:DescribeLaunchTemplateVersions", "ec2:DescribeLaunchTemplates",
			"ec2:DescribeRegions", "ec2:DescribeSpotFleetRequests", "ec2:DescribeSpotInstanceRequests", "ec2:GetAllowedImagesSettings",
			"eks:DescribeNodegroup", "eks:ListClusters", "eks:ListNodegroups")))
}

// ImportPolicy is an IAM policy for importing a disk as an AMI. EC2 and EBS need
// ec2:CreateTags and those of KMS for calls with other names.
func ImportPolicy(s Scope) (string, error) { return policy(s.importing()) }

// AuditPolicy is an IAM policy for auditing an AMI or a snapshot.
func AuditPolicy(s Scope) (string, error) { return policy(s.readForAudit()) }

// SnapshotReadPolicy is an IAM policy for reading an AMI or a snapshot.
func SnapshotReadPolicy(s Scope) (string, error) { return policy(s.read(s.find(), readActions()...)) }

// SnapshotDiffPolicy is an IAM policy for comparing the content of two AMIs.
func SnapshotDiffPolicy(s Scope) (string, error) { return policy(s.readForDiff()) }

// UnknownRegionError is a region that AWS does not have.
type UnknownRegionError struct {
	Name string
	// Known are the regions of the caller's partition.
	Known []string
}

func (e *UnknownRegionError) Error() string {
	return fmt.Sprintf("the region %s does not exist", e.Name)
}

// OpenRegions opens the named regions, or all regions that are enabled for the
// account. Without names, it opens the default region. Named regions are looked up
// if the caller may list the regions.
func OpenRegions(ctx context.Context, o Options, names []string, all bool) ([]*AWS, error) {
	o.Region = ""
	for _, name := range names {
		if err := awsnames.Region().Check(name); err != nil {
			return nil, surface.Errorf("%s: %w", surface.Name("region"), err)
		}
		o.defaultRegion = cmp.Or(o.defaultRegion, name)
	}
	home, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if !all && len(names) == 0 {
		return []*AWS{home}, nil
	}
	if all {
		if names, _, err = home.regions(ctx); err != nil {
			return nil, err
		}
	} else if err := home.CheckRegions(ctx, names); err != nil {
		return nil, err
	}
	var opened []*AWS
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		opened = append(opened, home.In(name))
	}
	return opened, nil
}

// CheckRegions returns an error for a region that does not exist or is not enabled for
// the account. Without the permission to list regions, all names are accepted.
func (a *AWS) CheckRegions(ctx context.Context, names []string) error {
	enabled, disabled, err := a.regions(ctx)
	if err != nil {
		return nil // the calls in the region have errors of their own
	}
	for _, name := range names {
		if slices.Contains(disabled, name) {
			return fmt.Errorf("the region %s is not enabled for this account; enable the region, or leave it out", name)
		}
		if !slices.Contains(enabled, name) {
			return &UnknownRegionError{name, enabled}
		}
	}
	return nil
}

// In calls AWS in another region with the same credentials.
func (a *AWS) In(region string) *AWS {
	c := a.config.Copy()
	c.Region = region
	in := a.options.connect(c, a.settle)
	in.patience = a.patience
	return in
}

// regions lists the regions of the partition.
func (a *AWS) regions(ctx context.Context) (enabled, disabled []string, err error) {
	out, err := a.ec2.DescribeRegions(ctx, &ec2.DescribeRegionsInput{AllRegions: aws.Bool(true)})
	if err != nil {
		return nil, nil, explain("listing the regions", err)
	}
	for _, r := range out.Regions {
		if aws.ToString(r.OptInStatus) == "not-opted-in" {
			disabled = append(disabled, aws.ToString(r.RegionName))
		} else {
			enabled = append(enabled, aws.ToString(r.RegionName))
		}
	}
	if len(enabled) == 0 {
		return nil, nil, errIncomplete("listing the regions", "enabled region")
	}
	slices.Sort(enabled)
	return enabled, disabled, nil
}

// atOnce is the number of regions that are read at the same time.
const atOnce = 8

// Each reads every region, several at the same time, and returns the results by
// region. A region that fails has no result; the error names the region.
func Each[T any](ctx context.Context, regions []*AWS, read func(context.Context, *AWS) (T, error)) (map[string]T, error) {
	results, failures := make([]T, len(regions)), make([]error, len(regions))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for n, a := range regions {
		group.Go(func() error {
			results[n], failures[n] = read(ctx, a)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	byRegion := map[string]T{}
	for n, a := range regions {
		if failures[n] == nil {
			byRegion[a.Region] = results[n]
		}
	}
	return byRegion, inRegions(regions, failures)
}

// inRegions joins the errors of regions. Equal errors are one error that names all
// their regions. If there is only one region, the error does not name it.
func inRegions(regions []*AWS, failures []error) error {
	if len(regions) == 1 {
		return failures[0]
	}
	var errs []error
	for n, err := range failures {
		if err == nil || slices.ContainsFunc(failures[:n], func(e error) bool { return e != nil && e.Error() == err.Error() }) {
			continue
		}
		var names []string
		for m, other := range failures {
			if other != nil && other.Error() == err.Error() {
				names = append(names, regions[m].Region)
			}
		}
		errs = append(errs, fmt.Errorf("in %s: %w", strings.Join(names, ", "), err))
	}
	return errors.Join(errs...)
}
