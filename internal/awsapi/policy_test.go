package awsapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// A policy names the partition, regions and keys of its scope.
func TestPoliciesOfSnapshotsHaveTheirScope(t *testing.T) {
	text, err := awsapi.AuditPolicy(awsapi.Scope{Regions: []string{"cn-north-1", "cn-northwest-1"}, Keys: []string{"arn:aws-cn:kms:cn-north-1:123456789012:key/mine"}})
	require.NoError(t, err)
	assert.JSONEq(t, `{"Version": "2012-10-17", "Statement": [
		{"Sid": "EksnodeFind", "Effect": "Allow", "Action": ["ec2:DescribeImages", "ec2:DescribeSnapshots", "ec2:GetImageAncestry"], "Resource": "*"},
		{"Sid": "EksnodeParameters", "Effect": "Allow", "Action": ["ssm:GetParameter"], "Resource": ["arn:aws-cn:ssm:cn-north-1:*:parameter/*", "arn:aws-cn:ssm:cn-northwest-1:*:parameter/*"]},
		{"Sid": "EksnodeReadBlocks", "Effect": "Allow", "Action": ["ebs:GetSnapshotBlock", "ebs:ListSnapshotBlocks"], "Resource": ["arn:aws-cn:ec2:cn-north-1::snapshot/*", "arn:aws-cn:ec2:cn-northwest-1::snapshot/*"]},
		{"Sid": "EksnodeDecrypt", "Effect": "Allow", "Action": ["kms:Decrypt"], "Resource": "arn:aws-cn:kms:cn-north-1:123456789012:key/mine", "Condition": {"StringLike": {"kms:ViaService": "ec2.*"}}}
	]}`, text)
	for region, want := range map[string]string{
		"": "arn:aws:ec2:*::snapshot/*", "eu-west-1": "arn:aws:ec2:eu-west-1::snapshot/*", "us-gov-west-1": "arn:aws-us-gov:ec2:us-gov-west-1::snapshot/*",
		"eusc-de-east-1": "arn:aws-eusc:ec2:eusc-de-east-1::snapshot/*", "us-isob-east-1": "arn:aws-iso-b:ec2:us-isob-east-1::snapshot/*",
	} {
		text, err := awsapi.SnapshotDiffPolicy(awsapi.Scope{Regions: strings.Fields(region)})
		require.NoError(t, err)
		assert.Contains(t, text, `"Resource": "`+want+`"`, region)
		assert.Contains(t, text, "ebs:ListChangedBlocks")
	}
}

// Nothing but the descriptions of EC2 is allowed for all resources, and a grant only
// for AWS.
func TestOnlyDescriptionsAreForAllResources(t *testing.T) {
	text, err := awsapi.ImportPolicy(awsapi.Scope{})
	require.NoError(t, err)
	var document struct {
		Statement []struct {
			Sid       string
			Action    []string
			Resource  any
			Condition map[string]map[string]string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &document))
	for _, s := range document.Statement {
		assert.Equal(t, s.Sid == "EksnodeFind", s.Resource == "*", s.Sid)
		assert.Equal(t, slices.Contains(s.Action, "kms:CreateGrant"), s.Condition["Bool"]["kms:GrantIsForAWSResource"] == "true", s.Sid)
	}
	for _, policy := range []func(awsapi.Scope) (string, error){awsapi.AuditPolicy, awsapi.SnapshotDiffPolicy} {
		text, err := policy(awsapi.Scope{})
		require.NoError(t, err)
		assert.NotRegexp(t, ":(Put|Start|Delete|Register|Create|Modify)", text)
	}
}

const registryHost = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"

// asked is a transport that records the host of a request and fails.
type asked struct{ host string }

func (a *asked) RoundTrip(in *http.Request) (*http.Response, error) {
	a.host = in.URL.Host
	return nil, errors.New("this is a test")
}

// ECR registries of each partition log in at an endpoint of that partition. Other
// registries never get AWS credentials.
func TestLoginEndpointsOfRegistries(t *testing.T) {
	endpoint.Environment(t, map[string]string{"AWS_REGION": ""})
	for host, want := range map[string]string{
		registryHost: "api.ecr.eu-west-1.amazonaws.com",
		"602401143452.dkr.ecr.us-west-2.amazonaws.com":                "api.ecr.us-west-2.amazonaws.com",
		"602401143452.dkr.ecr-fips.us-west-2.amazonaws.com":           "api.ecr-fips.us-west-2.amazonaws.com",
		"151742754352.dkr.ecr-fips.us-gov-east-1.amazonaws.com":       "api.ecr-fips.us-gov-east-1.amazonaws.com",
		"918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn":            "api.ecr.cn-north-1.amazonaws.com.cn",
		"877088126301.dkr.ecr.eusc-de-east-1.amazonaws.eu":            "api.ecr.eusc-de-east-1.amazonaws.eu",
		"725322719131.dkr.ecr.us-iso-east-1.c2s.ic.gov":               "api.ecr.us-iso-east-1.c2s.ic.gov",
		"187977181151.dkr.ecr.us-isob-east-1.sc2s.sgov.gov":           "api.ecr.us-isob-east-1.sc2s.sgov.gov",
		"249663109785.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk":          "api.ecr.eu-isoe-west-1.cloud.adc-e.uk",
		"676585237158.dkr.ecr.us-isof-south-1.csp.hci.ic.gov":         "api.ecr.us-isof-south-1.csp.hci.ic.gov",
		"123456789012.dkr-ecr.eu-west-1.on.aws":                       "ecr.eu-west-1.api.aws",
		"123456789012.dkr-ecr-fips.us-east-1.on.aws":                  "ecr-fips.us-east-1.api.aws",
		"123456789012.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn": "ecr.cn-north-1.api.amazonwebservices.com.cn",

		"public.ecr.aws":  "",
		"registry.k8s.io": "",
		"localhost:5000":  "",
		"12345678901.dkr.ecr.eu-west-1.amazonaws.com":              "",
		"x23456789012.dkr.ecr.eu-west-1.amazonaws.com":             "",
		registryHost + ".example.com":                              "",
		registryHost + ":443":                                      "",
		"123456789012.dkr.ecr.eu-west-1.example.com":               "",
		"123456789012.dkr.ecr.evil.example.com.amazonaws.com":      "",
		"123456789012.dkr.ecr..amazonaws.com":                      "",
		"example.com.123456789012.dkr.ecr.eu-west-1.amazonaws.com": "",
	} {
		t.Run(host, func(t *testing.T) {
			a := &asked{}
			_, _, ok, err := awsapi.RegistryLogin(awsapi.Options{HTTP: &http.Client{Transport: a}, Attempts: 1})(t.Context(), host)
			assert.Equal(t, want != "", ok)
			assert.Equal(t, want != "", err != nil)
			assert.Equal(t, want, a.host, "%v", err)
		})
	}
}
