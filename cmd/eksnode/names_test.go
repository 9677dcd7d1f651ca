//go:build linux && !agent

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Names that cannot exist are refused before any call. The error names the flag.
func TestMalformedNamesAreRefusedBeforeAnyCall(t *testing.T) {
	calls := unreachableAWS(t)
	const ami = " --ami ami-0123456789abcdef0"
	const role = " --role arn:aws:iam::123456789012:role/node"
	for args, want := range map[string]string{
		"preflight --cluster c --instance i-12":                                       "--instance: \"i-12\" is not an instance ID such as i-0123456789abcdef0: the part after the dash must have 8 or 17 digits, not 2",
		"preflight --cluster c --ami i-0123456789abcdef0":                             "--ami: \"i-0123456789abcdef0\" is not an AMI ID such as ami-0123456789abcdef0: the text is the ID of an instance",
		"preflight --cluster c --ami resolve:ssm:a:b:c":                               "--ami: \"a:b:c\" is not a parameter name such as /eksnode/debian/1.34/amd64",
		"preflight --cluster arn:aws:eks:eu-west-1:123456789012:cluster/c" + ami:      "--cluster: \"arn:aws:eks:eu-west-1:123456789012:cluster/c\" is not a cluster name such as my-cluster: the text is an ARN; the cluster's name is \"c\"",
		"preflight --cluster c --launch-template lt-1":                                "--launch-template: \"lt-1\" is not a launch template ID such as lt-0123456789abcdef0: the part after the dash must have 8 or 17 digits, not 1",
		"preflight --cluster c --launch-template nodes --launch-template-version new": "--launch-template-version: \"new\" is not a launch template version: use a number from 1, $Latest or $Default",
		"preflight --cluster c --subnet subnet-0123456789abcdef0,subnet-1" + ami:      "--subnet: \"subnet-1\" is not a subnet ID such as subnet-0123456789abcdef0: the part after the dash must have 8 or 17 digits, not 1",
		"preflight --cluster c --region eu-west-1a" + ami:                             "--region: \"eu-west-1a\" is not a region such as eu-west-1: the text is an availability zone; its region is eu-west-1",
		"preflight --cluster c --endpoint localhost:5000" + ami:                       "--endpoint: \"localhost:5000\" is not an address such as https://vpce-1.eks.eu-west-1.vpce.amazonaws.com",
		"preflight --cluster c --assume-role arn:aws:iam::1:role/x" + ami:             "--assume-role: \"arn:aws:iam::1:role/x\" is not a role's ARN such as arn:aws:iam::123456789012:role/node: the account must have 12 digits, not 1",
		"ami list --region Ireland":                                                   "--region: \"Ireland\" is not a region such as eu-west-1",
		"ami retire --assume-role deployer":                                           "--assume-role: \"deployer\" is not a role's ARN such as arn:aws:iam::123456789012:role/node: the text is a name; `aws iam get-role --role-name deployer --query Role.Arn --output text` prints the ARN",
		"ami publish ami-1 --parameter /x":                                            "\"ami-1\" is not an AMI ID such as ami-0123456789abcdef0: the part after the dash must have 8 or 17 digits, not 1",
		"ami publish ami-0123456789abcdef0 --parameter /aws/x":                        "--parameter: \"/aws/x\" is reserved: parameter names must not begin with aws or ssm",
		"ami diff ami-0123456789abcdef0 ami-1":                                        "\"ami-1\" is not an AMI ID such as ami-0123456789abcdef0: the part after the dash must have 8 or 17 digits, not 1",
		"manifests --cluster c" + role + ami + " --instance-type large":               "--instance-type: \"large\" is not an instance type such as m7i.large",
		"manifests --cluster c" + role + ami + " --instance-profile a/b":              "--instance-profile: \"a/b\" is not an instance profile's name such as nodes",
		"userdata render --family al2023 --cluster a.b":                               "--cluster: \"a.b\" is not a cluster name such as my-cluster: a name has letters, digits, dashes and underscores, and begins with a letter or a digit",
		"userdata render --family karpenter --cluster c --ami x":                      "--ami: \"x\" is not an AMI ID such as ami-0123456789abcdef0",
	} {
		code, out, errOut := command(t, "", strings.Fields(args)...)
		assert.Equal(t, 2, code, args)
		assert.Empty(t, out, args)
		assert.Equal(t, "eksnode: "+want+"\n", errOut, args)
	}
	t.Setenv("AWS_REGION", "eu_west_1")
	_, _, errOut := command(t, "", "ami", "list")
	assert.Equal(t, "eksnode: --region: \"eu_west_1\" is not a region such as eu-west-1\n", errOut)
	assert.Zero(t, calls.Load())
}
