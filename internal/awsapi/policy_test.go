package awsapi_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// A policy names the partition, regions and keys of its scope.
func TestPoliciesOfSnapshotsHaveTheirScope(t *testing.T) {
	text, err := awsapi.SnapshotReadPolicy(awsapi.Scope{Regions: []string{"cn-north-1", "cn-northwest-1"}, Keys: []string{"arn:aws-cn:kms:cn-north-1:123456789012:key/mine"}})
	require.NoError(t, err)
	assert.JSONEq(t, `{"Version": "2012-10-17", "Statement": [
		{"Sid": "EksnodeFind", "Effect": "Allow", "Action": ["ec2:DescribeImages", "ec2:DescribeSnapshots"], "Resource": "*"},
		{"Sid": "EksnodeParameters", "Effect": "Allow", "Action": ["ssm:GetParameter"], "Resource": ["arn:aws-cn:ssm:cn-north-1:*:parameter/*", "arn:aws-cn:ssm:cn-northwest-1:*:parameter/*"]},
		{"Sid": "EksnodeReadBlocks", "Effect": "Allow", "Action": ["ebs:GetSnapshotBlock", "ebs:ListSnapshotBlocks"], "Resource": ["arn:aws-cn:ec2:cn-north-1::snapshot/*", "arn:aws-cn:ec2:cn-northwest-1::snapshot/*"]},
		{"Sid": "EksnodeDescribeKeys", "Effect": "Allow", "Action": ["kms:DescribeKey"], "Resource": "arn:aws-cn:kms:cn-north-1:123456789012:key/mine"},
		{"Sid": "EksnodeDecrypt", "Effect": "Allow", "Action": ["kms:Decrypt"], "Resource": "arn:aws-cn:kms:cn-north-1:123456789012:key/mine", "Condition": {"StringLike": {"kms:ViaService": "ec2.*"}}}
	]}`, text)
	for region, want := range map[string]string{
		"": "arn:aws:ec2:*::snapshot/*", "eu-west-1": "arn:aws:ec2:eu-west-1::snapshot/*", "us-gov-west-1": "arn:aws-us-gov:ec2:us-gov-west-1::snapshot/*",
		"eusc-de-east-1": "arn:aws-eusc:ec2:eusc-de-east-1::snapshot/*", "us-isob-east-1": "arn:aws-iso-b:ec2:us-isob-east-1::snapshot/*",
	} {
		var scope awsapi.Scope
		if region != "" {
			scope.Regions = []string{region}
		}
		text, err := awsapi.SnapshotDiffPolicy(scope)
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
	var all []string
	for _, s := range document.Statement {
		all = append(all, s.Action...)
		assert.Equal(t, s.Sid == "EksnodeFind", s.Resource == "*", s.Sid)
		assert.Equal(t, slices.Contains(s.Action, "kms:CreateGrant"), s.Condition["Bool"]["kms:GrantIsForAWSResource"] == "true", s.Sid)
	}
	slices.Sort(all)
	assert.Equal(t, awsapi.ImportActions(), all)
	for _, actions := range [][]string{awsapi.SnapshotReadActions(), awsapi.SnapshotDiffActions()} {
		for _, action := range actions {
			assert.NotRegexp(t, ":(Put|Start|Delete|Register|Create|Modify)", action)
		}
	}
}
