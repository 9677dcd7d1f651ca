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

// Form is the name of an ID, name or ARN of AWS in namesFile.
type Form string

// The forms of what this program takes.
const (
	InstanceID      Form = "instance-id"
	ImageID         Form = "image-id"
	SnapshotID      Form = "snapshot-id"
	SubnetID        Form = "subnet-id"
	ClusterName     Form = "cluster"
	NodegroupName   Form = "nodegroup"
	Region          Form = "region"
	RoleARN         Form = "role-arn"
	RoleName        Form = "role"
	ProfileName     Form = "profile"
	InstanceType    Form = "instance-type"
	AccountID       Form = "account"
	OrganizationARN Form = "organization"
	UnitARN         Form = "unit"
)

// form is the form of an ID, name or ARN of AWS.
type form struct {
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
var forms = sync.OnceValue(func() map[Form]form {
	var all map[Form]form
	strictjson.Ours("names.yaml", namesFile, &all)
	return all
})

// like matches a text with a pattern of namesFile. {aws} is any partition
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html).
func like(pattern, text string) []string {
	return regexp.MustCompile(strings.ReplaceAll(pattern, "{aws}", `aws(?:-[a-z]+)*`)).FindStringSubmatch(text)
}

// Check returns an error for a text that does not have the form.
func (name Form) Check(text string) error {
	f := forms()[name]
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
func (f form) hint(text string) string {
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

// LaunchTemplate checks a launch template's ID or name. A name that begins
// like an ID must be one.
func LaunchTemplate(text string) error {
	if strings.HasPrefix(strings.ToLower(text), "lt-") {
		return Form("template-id").Check(text)
	}
	return Form("template").Check(text)
}

// TemplateVersion checks a launch template's version.
func TemplateVersion(text string) error { return Form("template-version").Check(text) }

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
	err := Form("parameter").Check(name)
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
func ReadParameter(name string) error { return Form("read-parameter").Check(name) }

// ByParameter is the prefix with which launch templates name a parameter that
// contains an image ID. A version or a label of the parameter may follow
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-launch-template.html).
const ByParameter = "resolve:ssm:"

// Image checks an AMI's ID, or a parameter with the ID in the form of launch templates.
func Image(text string) error {
	if name, parameter := strings.CutPrefix(text, ByParameter); parameter {
		return ReadParameter(name)
	}
	return ImageID.Check(text)
}

// ImageName checks the name of an image or of a watermark.
func ImageName(name string) error { return Form("image-name").Check(name) }
