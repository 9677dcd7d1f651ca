package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCheck(t *testing.T) {
	for line, want := range map[string]string{
		"aws ec2 create-tags --resources i-1 i-2 --tags Key=a,Value=b Key=c,Value=d":                                                                  "",
		"aws eks wait cluster-active --name c && aws configure list":                                                                                  "",
		"aws ec2 associate-dhcp-options --vpc-id v --dhcp-options-id $(aws ec2 create-dhcp-options --dhcp-configurations Key=domain-name,Values=a,b)": "",
		`aws ec2 create-launch-template-version --launch-template-id lt-1 --launch-template-data '{"ImageId":"ami-1","SecurityGroupIds":["sg-1"]}'`:   "",
		"aws ec2 authorize-security-group-egress --group-id sg-1 --protocol tcp --port 443 --source-group sg-2":                                       "",
		"aws ec2 create-network-acl-entry --network-acl-id a --egress --rule-number 1 --protocol tcp --port-range From=1,To=2 --rule-action allow":    "",
		"aws ec2 modify-vpc-attribute --vpc-id v --enable-dns-support":                                                                                "",
		"aws eks update-cluster-config --name c --resources-vpc-config endpointPrivateAccess=true":                                                    "",
		"kubectl get nodes | aws sts get-caller-identity":                                                                                             "",
		"":                                        "the line has no command",
		"rm -rf x":                                "rm: not a supported command",
		"aws ec2 create-tag --resources a":        "ec2 has no operation create-tag",
		"aws ec2 create-tags --resource a":        "create-tags has no such parameter",
		"aws ec2 create-tags --resources a":       "missing required field, CreateTagsInput.Tags",
		"aws ec2 create-tags --tags Key=a,Val=b":  "Tag has no member Val",
		"aws ec2 describe-images --image-ids …":   "a shell expands",
		"aws ec2 describe-images --owners $OWNER": "a shell expands",
		"aws eks update-cluster-config --name c --resources-vpc-config EndpointPrivateAccess=true":                                              "must begin with a small letter",
		`aws ec2 create-launch-template-version --launch-template-id lt-1 --launch-template-data '{"SecurityGroups":"sg-1"}'`:                   "SecurityGroups: must be a list",
		`aws ec2 create-launch-template-version --launch-template-id lt-1 --launch-template-data '{"ImageID":"ami-1"}'`:                         "has no member ImageID",
		`aws ec2 create-launch-template-version --launch-template-id lt-1 --launch-template-data '{"MetadataOptions":{"HttpTokens":"needed"}}'`: `"needed" is not a valid LaunchTemplateHttpTokensState`,
		"aws ec2 create-vpc-endpoint --vpc-id v --vpc-endpoint-type Interfaces":                                                                 `"Interfaces" is not a valid VpcEndpointType`,
		"aws ec2 create-network-acl-entry --network-acl-id a --egress --rule-number one":                                                        "invalid syntax",
		"aws s3 ls s3://x":                      "the test code does not support the service s3",
		"aws ec2 wait volume-deleted":           "the test code does not support the waiter",
		"aws iam create-role --role-name 'open": "without closing quote",
	} {
		err := Check(line, "kubectl")
		if want == "" {
			assert.NoError(t, err, line)
			continue
		}
		assert.ErrorContains(t, err, want, line)
	}
	assert.True(t, Operation("eks:DescribeCluster"))
	assert.False(t, Operation("eks:DescribeClusters"))
}
