package awsnames

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// checks are the forms by the names that the tests use.
func checks() map[string]func(string) error {
	return map[string]func(string) error{
		"instance": InstanceID().Check, "ami": ImageID().Check, "image": Image, "subnet": SubnetID().Check,
		"template": LaunchTemplate, "version": TemplateVersion, "cluster": ClusterName().Check, "nodegroup": NodegroupName().Check, "region": Region().Check,
		"role": RoleARN().Check, "role-name": RoleName().Check, "profile": ProfileName().Check, "type": InstanceType().Check, "account": AccountID().Check,
		"endpoint": Endpoint, "parameter": Parameter, "read": ReadParameter, "snapshot": SnapshotID().Check, "organization": OrganizationARN().Check, "unit": UnitARN().Check,
	}
}

func TestNamesThatExistAreAccepted(t *testing.T) {
	for form, values := range map[string][]string{
		"instance":  {"i-0123456789abcdef0", "i-01234567"},
		"ami":       {"ami-0123456789abcdef0", "ami-11111111"},
		"image":     {"ami-0123456789abcdef0", "resolve:ssm:/eksnode/debian", "resolve:ssm:/eksnode/debian:3", "resolve:ssm:/aws/service/x:prod"},
		"subnet":    {"subnet-0123456789abcdef0", "subnet-9d4a7b6c"},
		"template":  {"lt-0123456789abcdef0", "nodes", "eks/my_nodes.(1)-a", strings.Repeat("a", 128)},
		"version":   {"1", "42", "$Latest", "$Default"},
		"cluster":   {"a", "9", "my-cluster", "My_Cluster-1", strings.Repeat("a", 100)},
		"nodegroup": {"ng-1", strings.Repeat("a", 63)},
		"region":    {"eu-west-1", "us-gov-west-1", "cn-north-1", "us-isob-east-1", "eusc-de-east-1", "ap-southeast-7", "mx-central-1"},
		"role": {
			"arn:aws:iam::123456789012:role/node", "arn:aws-cn:iam::123456789012:role/node", "arn:aws-us-gov:iam::123456789012:role/a/b/node", "arn:aws-iso-b:iam::123456789012:role/node",
			"arn:aws:iam::123456789012:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling", "arn:aws:iam::123456789012:role/A+b=c,d.e@f_g-h",
		},
		"role-name": {"node", "A+b=c,d.e@f_g-h"},
		"profile":   {"nodes", strings.Repeat("a", 128)},
		"type":      {"m7i.large", "u-6tb1.112xlarge", "c7gn.metal", "g4dn.xlarge", "u7in-16tb.224xlarge", "mac2-m2.metal", "hpc7a.96xlarge", "p4de.24xlarge"},
		"account":   {"123456789012", "000000000000"},
		"endpoint":  {"https://vpce-1.eks.eu-west-1.vpce.amazonaws.com", "http://127.0.0.1:5000", "http://[::1]:5000/", "http://localhost", "https://eks.eu-west-1.api.aws/path", "http://moto_server:5000"},
		"parameter": {"/eksnode/debian/1.34/amd64", "name", "/a", "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15", strings.Repeat("a", 1011)},
		"snapshot":  {"snap-0123456789abcdef0"},
		"organization": {
			"arn:aws:organizations::123456789012:organization/o-exampleorgid", "arn:aws-us-gov:organizations::123456789012:organization/o-0123456789",
		},
		"unit": {"arn:aws:organizations::123456789012:ou/o-exampleorgid/ou-abcd-12345678"},
		"read": {"/aws/service/debian/release/12/latest/amd64", "/x:3", "arn:aws:ssm:eu-west-1:123456789012:parameter/shared/x"},
	} {
		for _, v := range values {
			assert.NoError(t, checks()[form](v), form)
		}
	}
}

// Every example has its form, and every hint is for other texts.
func TestFormsAreWhole(t *testing.T) {
	for name, f := range forms() {
		assert.NotEmpty(t, f.What, name)
		if f.Example != "" {
			assert.NoError(t, f.Check(f.Example), name)
		}
		for _, h := range f.Hints {
			assert.Truef(t, h.Like == "" || like(h.Like, "\x00") == nil, "%s: %s", name, h.Like)
		}
	}
}

// Each error names the value, an example, and the mistake if it is a known one.
func TestMalformedNamesAreRefused(t *testing.T) {
	for _, c := range []struct{ form, value, want string }{
		{"instance", "i-12", `"i-12" is not an instance ID such as i-0123456789abcdef0: the part after the dash must have 8 or 17 digits, not 2`},
		{"instance", "i-0123456789abcdef", `"i-0123456789abcdef" is not an instance ID such as i-0123456789abcdef0: the part after the dash must have 8 or 17 digits, not 16`},
		{"instance", "I-0123456789ABCDEF0", `"I-0123456789ABCDEF0" is not an instance ID such as i-0123456789abcdef0: IDs have small letters`},
		{"instance", "i-0123456789abcdefg", `"i-0123456789abcdefg" is not an instance ID such as i-0123456789abcdef0`},
		{"instance", "i-0123456789abcdef0\n", `"i-0123456789abcdef0\n" is not an instance ID such as i-0123456789abcdef0`},
		{"instance", " i-0123456789abcdef0", `" i-0123456789abcdef0" is not an instance ID such as i-0123456789abcdef0`},
		{"instance", "ami-0123456789abcdef0", `"ami-0123456789abcdef0" is not an instance ID such as i-0123456789abcdef0: the text is the ID of an AMI`},
		{"instance", "arn:aws:ec2:eu-west-1:123456789012:instance/i-0123456789abcdef0", `"arn:aws:ec2:eu-west-1:123456789012:instance/i-0123456789abcdef0" is not an instance ID such as i-0123456789abcdef0: the text is an ARN; the part after the last slash is the ID`},
		{"instance", "", `"" is not an instance ID such as i-0123456789abcdef0`},
		{"snapshot", "ami-0123456789abcdef0", `"ami-0123456789abcdef0" is not a snapshot ID such as snap-0123456789abcdef0: the text is the ID of an AMI`},
		{"organization", "o-exampleorgid", `"o-exampleorgid" is not the ARN of an organization such as arn:aws:organizations::123456789012:organization/o-exampleorgid`},
		{"unit", "arn:aws:organizations::123456789012:organization/o-exampleorgid", `"arn:aws:organizations::123456789012:organization/o-exampleorgid" is not the ARN of an organizational unit such as arn:aws:organizations::123456789012:ou/o-exampleorgid/ou-abcd-12345678`},
		{"ami", "ami-xyz", `"ami-xyz" is not an AMI ID such as ami-0123456789abcdef0`},
		{"ami", "i-0123456789abcdef0", `"i-0123456789abcdef0" is not an AMI ID such as ami-0123456789abcdef0: the text is the ID of an instance`},
		{"image", "resolve:ssm:", `"" is not a parameter name such as /my-node/stable`},
		{"image", "debian", `"debian" is not an AMI ID such as ami-0123456789abcdef0`},
		{"subnet", "subnet-1", `"subnet-1" is not a subnet ID such as subnet-0123456789abcdef0: the part after the dash must have 8 or 17 digits, not 1`},
		{"subnet", "sg-0123456789abcdef0", `"sg-0123456789abcdef0" is not a subnet ID such as subnet-0123456789abcdef0: the text is the ID of a security group`},
		{"template", "lt-1", `"lt-1" is not a launch template ID such as lt-0123456789abcdef0: the part after the dash must have 8 or 17 digits, not 1`},
		{"template", "a b", `"a b" is not a launch template's ID or name: names have 3 to 128 letters, digits and ( ) . / _ -`},
		{"template", "ab", `"ab" is not a launch template's ID or name: names have 3 to 128 letters, digits and ( ) . / _ -`},
		{"template", "arn:aws:ec2:eu-west-1:123456789012:launch-template/lt-0123456789abcdef0", `"arn:aws:ec2:eu-west-1:123456789012:launch-template/lt-0123456789abcdef0" is not a launch template's ID or name: the text is an ARN; the part after the last slash is the ID`},
		{"version", "0", `"0" is not a launch template version: use a number from 1, $Latest or $Default`},
		{"version", "latest", `"latest" is not a launch template version: use a number from 1, $Latest or $Default, in single quotes`},
		{"version", "v3", `"v3" is not a launch template version: use a number from 1, $Latest or $Default`},
		{"version", "99999999999999999999", `"99999999999999999999" is not a launch template version: use a number from 1, $Latest or $Default`},
		{"cluster", "-a", `"-a" is not a cluster name such as my-cluster: a name has letters, digits, dashes and underscores, and begins with a letter or a digit`},
		{"cluster", "a.b", `"a.b" is not a cluster name such as my-cluster: a name has letters, digits, dashes and underscores, and begins with a letter or a digit`},
		{"cluster", "arn:aws:eks:eu-west-1:123456789012:cluster/prod", `"arn:aws:eks:eu-west-1:123456789012:cluster/prod" is not a cluster name such as my-cluster: the text is an ARN; the cluster's name is "prod"`},
		{"cluster", strings.Repeat("a", 101), `"` + strings.Repeat("a", 101) + `" is not a cluster name such as my-cluster: the maximum length is 100 characters`},
		{"nodegroup", strings.Repeat("a", 64), `"` + strings.Repeat("a", 64) + `" is not a node group's name such as my-nodes: the maximum length is 63 characters`},
		{"region", "eu-west-1a", `"eu-west-1a" is not a region such as eu-west-1: the text is an availability zone; its region is eu-west-1`},
		{"region", "EU-WEST-1", `"EU-WEST-1" is not a region such as eu-west-1`},
		{"region", "Ireland", `"Ireland" is not a region such as eu-west-1`},
		{"region", "eu-west-1.evil.example/", `"eu-west-1.evil.example/" is not a region such as eu-west-1`},
		{"role", "node", `"node" is not a role's ARN such as arn:aws:iam::123456789012:role/node: the text is a name; ` + "`aws iam get-role --role-name node --query Role.Arn --output text` prints the ARN"},
		{"role", "arn:aws:iam::12345678901:role/node", `"arn:aws:iam::12345678901:role/node" is not a role's ARN such as arn:aws:iam::123456789012:role/node: the account must have 12 digits, not 11`},
		{"role", "arn:aws:sts::123456789012:assumed-role/node/i-0123456789abcdef0", `"arn:aws:sts::123456789012:assumed-role/node/i-0123456789abcdef0" is not a role's ARN such as arn:aws:iam::123456789012:role/node: the text names a session; the role's ARN is arn:aws:iam::123456789012:role/node, with the role's path if the role has one`},
		{"role", "arn:aws:iam::123456789012:instance-profile/eks/nodes", `"arn:aws:iam::123456789012:instance-profile/eks/nodes" is not a role's ARN such as arn:aws:iam::123456789012:role/node: the text names an instance profile; ` + "`aws iam get-instance-profile --instance-profile-name nodes` prints its role"},
		{"role", "arn:aws:iam::123456789012:user/bob", `"arn:aws:iam::123456789012:user/bob" is not a role's ARN such as arn:aws:iam::123456789012:role/node: the text names a user`},
		{"role", "arn:aws:iam::123456789012:root", `"arn:aws:iam::123456789012:root" is not a role's ARN such as arn:aws:iam::123456789012:role/node: the text names an account`},
		{"role", "arn:amazon:iam::123456789012:role/node", `"arn:amazon:iam::123456789012:role/node" is not a role's ARN such as arn:aws:iam::123456789012:role/node: the partition must be aws, aws-cn, aws-us-gov or another of AWS`},
		{"role", "arn:aws:iam::123456789012:role/", `"arn:aws:iam::123456789012:role/" is not a role's ARN such as arn:aws:iam::123456789012:role/node: the role's name is missing`},
		{"role", "arn:aws:iam:eu-west-1:123456789012:role/node", `"arn:aws:iam:eu-west-1:123456789012:role/node" is not a role's ARN such as arn:aws:iam::123456789012:role/node`},
		{"role-name", "arn:aws:iam::123456789012:role/node", `"arn:aws:iam::123456789012:role/node" is not a role's name such as node: the text is an ARN; the part after the last slash is the name`},
		{"profile", "a b", `"a b" is not an instance profile's name such as nodes`},
		{"type", "large", `"large" is not an instance type such as m7i.large`},
		{"type", "m7i.large,m6i.large", `"m7i.large,m6i.large" is not an instance type such as m7i.large`},
		{"account", "1234", `"1234" is not an account ID such as 123456789012`},
		{"endpoint", "eks.eu-west-1.amazonaws.com", `"eks.eu-west-1.amazonaws.com" is not an address such as https://vpce-1.eks.eu-west-1.vpce.amazonaws.com`},
		{"endpoint", "ftp://x", `"ftp://x" is not an address such as https://vpce-1.eks.eu-west-1.vpce.amazonaws.com`},
		{"endpoint", "http://", `"http://" is not an address such as https://vpce-1.eks.eu-west-1.vpce.amazonaws.com`},
		{"endpoint", "http://a b", `"http://a b" is not an address such as https://vpce-1.eks.eu-west-1.vpce.amazonaws.com`},
		{"endpoint", "http://x:99999", `"http://x:99999" is not an address such as https://vpce-1.eks.eu-west-1.vpce.amazonaws.com`},
		{"endpoint", "http://user:secret@x", `"http://user:xxxxx@x" is not an address such as https://vpce-1.eks.eu-west-1.vpce.amazonaws.com`},
		{"parameter", "a b", `"a b" is not a parameter name such as /my-node/stable`},
		{"parameter", "/aws/x", `"/aws/x" is reserved: parameter names must not begin with aws or ssm`},
		{"parameter", "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16", `"/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16" has too many parts: SSM permits 15`},
		{"read", "/x:", `"/x:" is not a parameter name such as /my-node/stable`},
	} {
		assert.EqualError(t, checks()[c.form](c.value), c.want, c.form)
	}
}

// Errors about long or unprintable texts stay short and printable.
func TestErrorsAreShortAndPrintable(t *testing.T) {
	for form, check := range checks() {
		for _, text := range []string{strings.Repeat("x y", 100000), "\x1b[31m\x00", "\xff\xfe"} {
			err := check(text)
			if assert.Error(t, err, form) {
				assert.Less(t, len(err.Error()), 1000, form)
				assert.NotContains(t, err.Error(), "\x1b", form)
			}
		}
	}
}

// No text makes a check panic, and what a check accepts has only characters that
// need no quotes in a URL's host, in a shell or in JSON.
func FuzzNames(f *testing.F) {
	for _, text := range []string{"i-0123456789abcdef0", "arn:aws:iam::123456789012:role/a/b", "resolve:ssm:/a:b", "$Latest", "https://a:1/", "eu-west-1a", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for form, check := range checks() {
			if err := check(text); err != nil {
				assert.Less(t, len(err.Error()), 1500, form)
			} else if form != "endpoint" {
				assert.NotContains(t, text, " ", form)
				assert.NotContains(t, text, "\n", form)
				assert.False(t, strings.ContainsAny(text, "'\"`\\;&|<>") && form != "role", "%s %q", form, text)
			}
		}
	})
}
