package preflight

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/clustersetup"
)

// What follows from the end of an instance is one finding.
func TestAnEndedInstanceIsOneFinding(t *testing.T) {
	ended := func(f *facts) {
		f.launch = fact[awsapi.Launch]{err: &awsapi.EndedError{Doing: "describing the instance i-1",
			State: "terminated", Reason: "Client.InternalError: Client error on launch"}}
		f.image.err, f.profile.err, f.types.err, f.userData.err = f.launch.err, f.launch.err, f.launch.err, f.launch.err
	}
	f := sample()
	checkCase{"instance-state", "FAIL", ended, "the instance is terminated (Client.InternalError: Client error on " +
		"launch: EC2 may not use the KMS key of a disk)", "aws ec2 describe-instances --instance-ids i-1"}.judge(t, f)
	r := f.check()
	assert.Equal(t, 1, r.Count(Fail), "%+v", r.Findings)
	assert.Zero(t, r.Count(Unknown), "%+v", r.Findings)
}

// A launch template without an image is one finding.
func TestNoImageIsOneFinding(t *testing.T) {
	f := templated()
	f.image = fact[awsapi.Image]{absent: true}
	assert.Equal(t, []string{"kubelet-version", "image-owner", "image-ena", "image-architecture"},
		found(t, f, "image-state").Unchecked)
	assert.Len(t, faults(f.check()), 1)
}

const (
	ownKey     = "arn:aws:kms:eu-west-1:123456789012:key/1"
	foreignKey = "arn:aws:kms:eu-west-1:666666666666:key/1"
	scaling    = "arn:aws:iam::123456789012:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
	rootOnly   = `{"Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::123456789012:root"},"Action":"kms:*","Resource":"*"}]}`
	documented = `{"Statement":[{"Effect":"Allow","Principal":{"AWS":["` + scaling +
		`"]},"Action":["kms:Encrypt","kms:Decrypt","kms:ReEncrypt*",` +
		`"kms:GenerateDataKey*","kms:DescribeKey"],"Resource":"*"},` +
		`{"Effect":"Allow","Principal":{"AWS":["` + scaling +
		`"]},"Action":["kms:CreateGrant"],"Resource":"*","Condition":{"Bool":{"kms:GrantIsForAWSResource":true}}}]}`
)

func TestADenialOfAKeyPolicyWins(t *testing.T) {
	allow := `{"Effect":"Allow","Principal":{"AWS":"` + scaling + `"},"Action":"kms:*"}`
	allowed, sure := allows(`{"Statement":[`+allow+`]}`, scaling)
	assert.True(t, allowed && sure)
	allowed, sure = allows(strings.Replace(documented, "kms:CreateGrant", "kms:ListGrants", 1), scaling)
	assert.True(t, !allowed && sure)
	_, sure = allows(strings.Replace(documented, "kms:GrantIsForAWSResource", "aws:SourceVpc", 1), scaling)
	assert.False(t, sure)
	for _, other := range []string{`{"Effect":"Deny","Principal":"*","Action":"kms:CreateGrant"}`,
		`{"Principal":"*","Action":"kms:Decrypt"}`} {
		for _, policy := range []string{allow + "," + other, other + "," + allow} {
			allowed, _ := allows(`{"Statement":[`+policy+`]}`, scaling)
			assert.False(t, allowed, policy)
		}
	}
}

// A key policy is written by people. No policy makes the check panic, and none that
// is invalid lets Auto Scaling use the key.
func FuzzKeyPolicy(f *testing.F) {
	f.Add(rootOnly)
	f.Add(documented)
	f.Add(`{"Statement":{"Effect":"Deny","Principal":"*","Action":"kms:*"}}`)
	f.Add(`{"Statement":[{"Effect":"Allow","NotPrincipal":{"AWS":"x"},"Action":"*"}]}`)
	f.Add(`{"Statement":[{"Principal":{"AWS":["` + scaling + `"]},"Action":["*"]}]}`)
	f.Fuzz(func(t *testing.T, policy string) {
		if allowed, _ := allows(policy, scaling); allowed {
			assert.Contains(t, strings.ToLower(policy), "allow")
		}
	})
}

// FuzzEndpointPolicy evaluates policies of endpoints, and the policies that remedies
// write.
func FuzzEndpointPolicy(f *testing.F) {
	for _, seed := range []string{
		fullAccess, `{}`, `{"Statement":null}`,
		`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::mine/*"}}`,
		`{"Statement":[{"Effect":"Deny","Principal":{"AWS":["*"]},"NotAction":"s3:Get?bject","NotResource":["arn:*"],"Condition":{"Bool":{"a":"b"}}}]}`,
		`{"statement":[{"effect":"Allow","principal":{"Service":"x"},"action":["*"],"resource":"*"}]}`,
		`{"Statement":[null,1]}`, `[]`,
	} {
		f.Add(seed, "s3:GetObject", "arn:aws:s3:::prod-eu-west-1-starport-layer-bucket/layer")
		f.Add(seed, "ec2:DescribeInstances", "*")
	}
	f.Fuzz(func(t *testing.T, text, action, resource string) {
		var before, after clustersetup.Document
		if json.Unmarshal([]byte(text), &before) != nil {
			return
		}
		c := call{action, resource}
		said, denied := about(before, c)
		written, err := clustersetup.Extended(text, map[string]any{"Effect": "Allow", "Principal": "*",
			"Action": action, "Resource": resource})
		if err != nil || said != refused || denied {
			return
		}
		assert.NoError(t, json.Unmarshal([]byte(written), &after))
		if now, _ := about(after, c); rewritten(action) == action && rewritten(resource) == resource {
			assert.Equal(t, allowed, now, written)
		}
	})
}

// rewritten is a text as encoding/json writes and reads it.
func rewritten(text string) string {
	var back string
	written, err := json.Marshal(text)
	if err != nil || json.Unmarshal(written, &back) != nil {
		return ""
	}
	return back
}
