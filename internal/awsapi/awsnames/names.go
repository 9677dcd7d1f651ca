// Package awsnames checks the form of IDs, names and ARNs of AWS. A value of another
// form cannot name anything, so commands and fields refuse it before the first call.
package awsnames

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Form is the form of an ID, name or ARN of AWS.
type Form struct {
	// what is the value with its article, and example a value of the form.
	what, example string
	pattern       *regexp.Regexp
	// longest is the maximum length; 0 means that the pattern limits it.
	longest int
	// hint explains a frequent mistake. It returns an empty text for others.
	hint func(text string) string
}

// Check returns an error for a text that does not have the form.
func (f Form) Check(text string) error {
	if f.pattern.MatchString(text) && (f.longest == 0 || len(text) <= f.longest) {
		return nil
	}
	said := fmt.Sprintf("%s is not %s such as %s", shown(text), f.what, f.example)
	if f.longest > 0 && len(text) > f.longest {
		return fmt.Errorf("%s: the maximum length is %d characters", said, f.longest)
	}
	if f.hint != nil {
		if hint := f.hint(text); hint != "" {
			return fmt.Errorf("%s: %s", said, hint)
		}
	}
	return errors.New(said)
}

// shown quotes a text and shortens a long one.
func shown(text string) string { return show.Quote(text, 120) }

// ARN has the parts of an ARN. A text of another form has none.
type ARN struct{ Partition, Service, Region, Account, Resource string }

// Split returns the parts of an ARN.
func Split(text string) ARN {
	parts := strings.SplitN(text, ":", 6)
	if len(parts) < 6 || parts[0] != "arn" {
		return ARN{}
	}
	return ARN{parts[1], parts[2], parts[3], parts[4], parts[5]}
}

// idOf is the form of EC2's IDs: a prefix, and 8 or 17 hexadecimal digits
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html).
func idOf(prefix, what string) Form {
	return Form{
		what: what, example: prefix + "-0123456789abcdef0", pattern: regexp.MustCompile(`^` + prefix + `-([0-9a-f]{8}|[0-9a-f]{17})$`),
		hint: func(text string) string { return wrongID(prefix, text) },
	}
}

// kinds are the resources whose IDs have these prefixes.
var kinds = map[string]string{
	"i": "an instance", "ami": "an AMI", "subnet": "a subnet", "lt": "a launch template", "vpc": "a VPC", "sg": "a security group", "snap": "a snapshot",
	"vol": "a volume", "eni": "a network interface", "rtb": "a route table", "acl": "a network ACL",
}

func wrongID(prefix, text string) string {
	of, digits, dashed := strings.Cut(text, "-")
	switch {
	case strings.HasPrefix(text, "arn:"):
		return "the text is an ARN; the part after the last slash is the ID"
	case dashed && strings.EqualFold(of, prefix) && strings.ToLower(text) != text:
		return "IDs have small letters"
	case dashed && of != prefix && kinds[of] != "":
		return "the text is the ID of " + kinds[of]
	case dashed && of == prefix && strings.Trim(digits, "0123456789abcdef") == "":
		return fmt.Sprintf("the part after the dash must have 8 or 17 digits, not %d", len(digits))
	}
	return ""
}

// InstanceID is the form of an EC2 instance's ID.
func InstanceID() Form { return idOf("i", "an instance ID") }

// ImageID is the form of an AMI's ID.
func ImageID() Form { return idOf("ami", "an AMI ID") }

// SnapshotID is the form of an EBS snapshot's ID.
func SnapshotID() Form { return idOf("snap", "a snapshot ID") }

// SubnetID is the form of a subnet's ID.
func SubnetID() Form { return idOf("subnet", "a subnet ID") }

// LaunchTemplate checks a launch template's ID or name. A name that begins
// like an ID must be one
// (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateLaunchTemplate.html).
func LaunchTemplate(text string) error {
	if strings.HasPrefix(strings.ToLower(text), "lt-") {
		return idOf("lt", "a launch template ID").Check(text)
	}
	if len(text) >= 3 && len(text) <= 128 && templateName.MatchString(text) {
		return nil
	}
	if hint := wrongID("lt", text); hint != "" && strings.HasPrefix(text, "arn:") {
		return fmt.Errorf("%s is not a launch template's ID or name: %s", shown(text), hint)
	}
	return fmt.Errorf("%s is not a launch template's ID or name: names have 3 to 128 letters, digits and ( ) . / _ -", shown(text))
}

var templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]+$`)

// TemplateVersion checks a launch template's version.
func TemplateVersion(text string) error {
	if text == "$Latest" || text == "$Default" || templateNumber.MatchString(text) {
		return nil
	}
	said := "%s is not a launch template version: use a number from 1, $Latest or $Default"
	if text == "" || strings.EqualFold(text, "latest") || strings.EqualFold(text, "default") || strings.EqualFold(text, "$latest") || strings.EqualFold(text, "$default") {
		said += ", in single quotes"
	}
	return fmt.Errorf(said, shown(text))
}

var templateNumber = regexp.MustCompile(`^[1-9][0-9]{0,17}$`)

// ClusterName is the form of an EKS cluster's name
// (https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html).
func ClusterName() Form {
	return Form{
		what: "a cluster name", example: "my-cluster", pattern: regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9_-]*$`), longest: 100,
		hint: func(text string) string {
			if _, name, arn := strings.Cut(text, ":cluster/"); arn && strings.HasPrefix(text, "arn:") {
				return "the text is an ARN; the cluster's name is " + shown(name)
			}
			return "a name has letters, digits, dashes and underscores, and begins with a letter or a digit"
		},
	}
}

// NodegroupName is the form of a managed node group's name
// (https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html).
func NodegroupName() Form {
	f := ClusterName()
	f.what, f.example, f.longest = "a node group's name", "my-nodes", 63
	f.hint = func(text string) string {
		if strings.HasPrefix(text, "arn:") {
			return "the text is an ARN; the node group's name is between the second and the third slash"
		}
		return "a name has letters, digits, dashes and underscores, and begins with a letter or a digit"
	}
	return f
}

// Region is the form of a region's name, in all partitions: us-gov-west-1, eusc-de-east-1.
func Region() Form {
	return Form{
		what: "a region", example: "eu-west-1", pattern: regexp.MustCompile(`^[a-z]{2,8}(-[a-z]{2,16}){1,3}-[0-9]{1,2}$`),
		hint: func(text string) string {
			if zone := availabilityZone.FindStringSubmatch(text); zone != nil {
				return "the text is an availability zone; its region is " + zone[1]
			}
			return ""
		},
	}
}

var availabilityZone = regexp.MustCompile(`^([a-z]{2,8}(?:-[a-z]{2,16}){1,3}-[0-9]{1,2})[a-z]$`)

// partitions are the partitions of AWS
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html).
const partitions = `aws(?:-[a-z]+)*`

// RoleARN is the form of an IAM role's ARN
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html).
func RoleARN() Form {
	return Form{
		what: "a role's ARN", example: "arn:aws:iam::123456789012:role/node", longest: 2048,
		pattern: regexp.MustCompile(`^arn:` + partitions + `:iam::[0-9]{12}:role/([!-~]{0,510}/)?[a-zA-Z0-9+=,.@_-]{1,64}$`),
		hint:    wrongRole,
	}
}

var (
	otherPrincipal = regexp.MustCompile(`^arn:(` + partitions + `):(iam|sts)::([0-9]{12}):(user|group|instance-profile|assumed-role|policy|root)(?:/(.+))?$`)
	arnAccount     = regexp.MustCompile(`^arn:[^:]*:iam::([^:]*):role/`)
)

// wrongRole explains what is wrong with a role's ARN.
func wrongRole(text string) string {
	if found := otherPrincipal.FindStringSubmatch(text); found != nil {
		name := found[5]
		switch found[4] {
		case "assumed-role":
			role, _, _ := strings.Cut(name, "/")
			return fmt.Sprintf("the text names a session; the role's ARN is arn:%s:iam::%s:role/%s, with the role's path if the role has one", found[1], found[3], role)
		case "instance-profile":
			return "the text names an instance profile; `aws iam get-instance-profile --instance-profile-name " + name[strings.LastIndex(name, "/")+1:] + "` prints its role"
		case "root":
			return "the text names an account"
		}
		return "the text names a " + found[4]
	}
	account := arnAccount.FindStringSubmatch(text)
	switch {
	case strings.HasPrefix(text, "arn:") && account != nil && len(strings.Trim(account[1], "0123456789")) == 0 && len(account[1]) != 12:
		return fmt.Sprintf("the account must have 12 digits, not %d", len(account[1]))
	case strings.HasPrefix(text, "arn:") && strings.HasSuffix(text, ":role/"):
		return "the role's name is missing"
	case strings.HasPrefix(text, "arn:") && !regexp.MustCompile(`^arn:`+partitions+`:`).MatchString(text):
		return "the partition must be aws, aws-cn, aws-us-gov or another of AWS"
	case roleName.MatchString(text):
		return "the text is a name; `aws iam get-role --role-name " + text + " --query Role.Arn --output text` prints the ARN"
	}
	return ""
}

var roleName = regexp.MustCompile(`^[a-zA-Z0-9+=,.@_-]{1,64}$`)

// RoleName is the form of an IAM role's name.
func RoleName() Form { return nameOf("a role's name", "node") }

// ProfileName is the form of an instance profile's name.
func ProfileName() Form {
	f := nameOf("an instance profile's name", "nodes")
	f.pattern, f.longest = regexp.MustCompile(`^[a-zA-Z0-9+=,.@_-]+$`), 128
	return f
}

func nameOf(what, example string) Form {
	return Form{what: what, example: example, pattern: roleName, hint: func(text string) string {
		if strings.HasPrefix(text, "arn:") {
			return "the text is an ARN; the part after the last slash is the name"
		}
		return ""
	}}
}

// InstanceType is the form of an instance type's name.
func InstanceType() Form {
	return Form{what: "an instance type", example: "m7i.large", pattern: regexp.MustCompile(`^[a-z][a-z0-9-]*[0-9][a-z0-9-]*\.[a-z0-9-]+$`)}
}

// AccountID is the form of an account's ID.
func AccountID() Form {
	return Form{what: "an account ID", example: "123456789012", pattern: regexp.MustCompile(`^[0-9]{12}$`)}
}

// OrganizationARN is the form of an organization's ARN
// (https://docs.aws.amazon.com/organizations/latest/APIReference/API_Organization.html).
func OrganizationARN() Form {
	return Form{
		what: "the ARN of an organization", example: "arn:aws:organizations::123456789012:organization/o-exampleorgid",
		pattern: regexp.MustCompile(`^arn:` + partitions + `:organizations::[0-9]{12}:organization/o-[a-z0-9]{10,32}$`),
	}
}

// UnitARN is the form of an organizational unit's ARN
// (https://docs.aws.amazon.com/organizations/latest/APIReference/API_OrganizationalUnit.html).
func UnitARN() Form {
	return Form{
		what: "the ARN of an organizational unit", example: "arn:aws:organizations::123456789012:ou/o-exampleorgid/ou-abcd-12345678",
		pattern: regexp.MustCompile(`^arn:` + partitions + `:organizations::[0-9]{12}:ou/o-[a-z0-9]{10,32}/ou-[0-9a-z]{4,32}-[0-9a-z]{8,32}$`),
	}
}

// Endpoint checks the address of services.
func Endpoint(text string) error {
	u, err := url.Parse(text)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && goodHost(u) && u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		return nil
	}
	if err == nil && u.User != nil {
		text = u.Redacted()
	}
	return fmt.Errorf("%s is not an address such as https://vpce-1.eks.eu-west-1.vpce.amazonaws.com", shown(text))
}

// goodHost says whether a URL names a host and a valid port.
func goodHost(u *url.URL) bool {
	host := u.Hostname()
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
			return false
		}
	}
	return host != "" && (net.ParseIP(strings.Split(host, "%")[0]) != nil || hostName.MatchString(host))
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*\.?$`)

// parameterName is the form of SSM's names
// (https://docs.aws.amazon.com/systems-manager/latest/userguide/sysman-parameter-name-constraints.html).
var parameterName = regexp.MustCompile(`^/?[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`)

// Parameter checks the name of a parameter to publish to. A name of 1011
// characters with its ARN has the maximum length, a hierarchy has 15 levels, and
// AWS owns names that begin with aws or ssm.
func Parameter(name string) error {
	err := Form{what: "a parameter name", example: "/my-node/stable", pattern: parameterName, longest: 1011}.Check(name)
	first, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(strings.ToLower(first), "aws") || strings.HasPrefix(strings.ToLower(first), "ssm"):
		return fmt.Errorf("%s is reserved: parameter names must not begin with aws or ssm", shown(name))
	case strings.Count(strings.TrimPrefix(name, "/"), "/") > 14:
		return fmt.Errorf("%s has too many parts: SSM permits 15", shown(name))
	}
	return nil
}

// ReadParameter checks the name of a parameter to read, with a version or a label
// after a colon. AWS's public parameters and the ARNs of shared ones are also
// allowed.
func ReadParameter(name string) error {
	text, suffix, _ := strings.Cut(strings.TrimPrefix(sharedParameter.ReplaceAllString(name, ""), "/"), ":")
	if len(name) <= 2048 && parameterName.MatchString(text) && (suffix == "" || parameterName.MatchString(suffix)) && !strings.HasSuffix(name, ":") {
		return nil
	}
	return fmt.Errorf("%s is not a parameter name such as /my-node/stable", shown(name))
}

var sharedParameter = regexp.MustCompile(`^arn:` + partitions + `:ssm:[a-z0-9-]+:[0-9]{12}:parameter`)

// Image checks an AMI's ID, or a parameter with the ID in the form of launch
// templates (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-launch-template.html).
func Image(text string) error {
	if name, parameter := strings.CutPrefix(text, "resolve:ssm:"); parameter {
		return ReadParameter(name)
	}
	return ImageID().Check(text)
}

// imageName is the form of the name of an image or of a watermark
// (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RegisterImage.html,
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AttachImageWatermark.html).
var imageName = regexp.MustCompile(`^[A-Za-z0-9()\[\] ./'@_-]{3,128}$`)

// ImageName checks the name of an image or of a watermark.
func ImageName(name string) error {
	if !imageName.MatchString(name) {
		return fmt.Errorf("%q is not a name of 3 to 128 letters, digits and ()[] ./-'@_", name)
	}
	return nil
}
