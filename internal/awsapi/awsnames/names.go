// Package awsnames checks the form of IDs, names and ARNs of AWS. A value of another
// form cannot name anything, so commands and fields refuse it before the first call.
package awsnames

import (
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// namesFile has the forms by their names, and says what their fields mean.
//
//go:embed names.yaml
var namesFile []byte

// Form is the form of an ID, name or ARN of AWS.
type Form struct {
	What    string `yaml:"what"`
	Example string `yaml:"example"`
	ID      string `yaml:"id"`
	Pattern string `yaml:"pattern"`
	Longest int    `yaml:"longest"`
	Hints   []hint `yaml:"hints"`
}

// hint explains a frequent mistake.
type hint struct {
	Like string `yaml:"like"`
	Say  string `yaml:"say"`
}

// forms are the forms of namesFile.
var forms = sync.OnceValue(func() map[string]Form {
	var all map[string]Form
	strictjson.Ours("names.yaml", namesFile, &all)
	return all
})

// like matches a text with a pattern of namesFile. {aws} is any partition
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html).
func like(pattern, text string) []string {
	return regexp.MustCompile(strings.ReplaceAll(pattern, "{aws}", `aws(?:-[a-z]+)*`)).FindStringSubmatch(text)
}

// Check returns an error for a text that does not have the form.
func (f Form) Check(text string) error {
	if f.ID != "" { // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html
		f.Example, f.Pattern = f.ID+"-0123456789abcdef0", `^`+f.ID+`-([0-9a-f]{8}|[0-9a-f]{17})$`
	}
	tooLong := f.Longest > 0 && len(text) > f.Longest
	if !tooLong && like(f.Pattern, text) != nil {
		return nil
	}
	said := shown(text) + " is not " + f.What
	if f.Example != "" {
		said += " such as " + f.Example
	}
	if tooLong {
		return fmt.Errorf("%s: the maximum length is %d characters", said, f.Longest)
	}
	if hint := f.hint(text); hint != "" {
		return fmt.Errorf("%s: %s", said, hint)
	}
	return errors.New(said)
}

// hint says what is wrong with a text, or nothing.
func (f Form) hint(text string) string {
	if f.ID != "" {
		return wrongID(f.ID, text)
	}
	for _, h := range f.Hints {
		if found := like(h.Like, text); found != nil {
			say := h.Say
			for n, part := range found {
				say = strings.ReplaceAll(say, fmt.Sprintf("{#%d}", n), strconv.Itoa(len(part)))
				say = strings.ReplaceAll(say, fmt.Sprintf("{%d}", n), part)
			}
			return say
		}
	}
	return ""
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

// kinds are the resources whose IDs have these prefixes.
var kinds = map[string]string{
	"i": "an instance", "ami": "an AMI", "subnet": "a subnet", "lt": "a launch template", "vpc": "a VPC",
	"sg": "a security group", "snap": "a snapshot", "vol": "a volume", "eni": "a network interface",
	"rtb": "a route table", "acl": "a network ACL",
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
func InstanceID() Form { return forms()["instance-id"] }

// ImageID is the form of an AMI's ID.
func ImageID() Form { return forms()["image-id"] }

// SnapshotID is the form of an EBS snapshot's ID.
func SnapshotID() Form { return forms()["snapshot-id"] }

// SubnetID is the form of a subnet's ID.
func SubnetID() Form { return forms()["subnet-id"] }

// ClusterName is the form of an EKS cluster's name.
func ClusterName() Form { return forms()["cluster"] }

// NodegroupName is the form of a managed node group's name.
func NodegroupName() Form { return forms()["nodegroup"] }

// Region is the form of a region's name, in all partitions.
func Region() Form { return forms()["region"] }

// RoleARN is the form of an IAM role's ARN.
func RoleARN() Form { return forms()["role-arn"] }

// RoleName is the form of an IAM role's name.
func RoleName() Form { return forms()["role"] }

// ProfileName is the form of an instance profile's name.
func ProfileName() Form { return forms()["profile"] }

// InstanceType is the form of an instance type's name.
func InstanceType() Form { return forms()["instance-type"] }

// AccountID is the form of an account's ID.
func AccountID() Form { return forms()["account"] }

// OrganizationARN is the form of an organization's ARN.
func OrganizationARN() Form { return forms()["organization"] }

// UnitARN is the form of an organizational unit's ARN.
func UnitARN() Form { return forms()["unit"] }

// LaunchTemplate checks a launch template's ID or name. A name that begins
// like an ID must be one.
func LaunchTemplate(text string) error {
	if strings.HasPrefix(strings.ToLower(text), "lt-") {
		return forms()["template-id"].Check(text)
	}
	return forms()["template"].Check(text)
}

// TemplateVersion checks a launch template's version.
func TemplateVersion(text string) error { return forms()["template-version"].Check(text) }

// Endpoint checks the address of services.
func Endpoint(text string) error {
	u, err := url.Parse(text)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && goodHost(u) && u.User == nil && u.RawQuery == "" &&
		u.Fragment == "" {
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

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?` +
	`(\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*\.?$`)

// Parameter checks the name of a parameter to publish to. A hierarchy has 15 levels, and
// AWS owns names that begin with aws or ssm.
func Parameter(name string) error {
	err := forms()["parameter"].Check(name)
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

// ReadParameter checks the name of a parameter to read.
func ReadParameter(name string) error { return forms()["read-parameter"].Check(name) }

// Image checks an AMI's ID, or a parameter with the ID in the form of launch
// templates (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-launch-template.html).
func Image(text string) error {
	if name, parameter := strings.CutPrefix(text, "resolve:ssm:"); parameter {
		return ReadParameter(name)
	}
	return ImageID().Check(text)
}

// ImageName checks the name of an image or of a watermark.
func ImageName(name string) error { return forms()["image-name"].Check(name) }
