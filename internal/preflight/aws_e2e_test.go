//go:build e2e && linux

package preflight

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// TestMain runs all tests in a network namespace with only loopback.
func TestMain(m *testing.M) { os.Exit(aws.Alone(m.Run)) }

var (
	instance = Target{Cluster: "my-cluster", Instance: "i-1"}
	template = Target{Cluster: "my-cluster", Template: "nodes", TemplateVersion: "$Default"}
)

func served(t *testing.T) *aws.World {
	t.Helper()
	w := aws.Sample(t)
	w.Serve()
	return w
}

func connect(t *testing.T) *awsapi.AWS {
	t.Helper()
	a, err := awsapi.Open(t.Context(), awsapi.Options{Pause: time.Millisecond, Settle: time.Millisecond})
	require.NoError(t, err)
	return a
}

func ask(t *testing.T, target Target) Report {
	t.Helper()
	r, err := Run(t.Context(), connect(t), target)
	require.NoError(t, err)
	return r
}

// The facts of sample and templated equal those that are gathered from moto.
func TestTheSampleEqualsMotosAnswers(t *testing.T) {
	w := served(t)
	w.PageSize = 1
	for _, want := range []*facts{sample(), templated()} {
		a := connect(t)
		account, err := a.Account(t.Context())
		got := gather(t.Context(), a, want.target, learn(account, err))
		want.image.value.Created = time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
		slices.Sort(got.profile.value.Role.Policies)
		assert.JSONEq(t, want.profile.value.Role.Trust, got.profile.value.Role.Trust)
		got.profile.value.Role.Trust = want.profile.value.Role.Trust
		for _, acl := range got.acls.value { // with equal numbers, any may be first
			slices.SortStableFunc(acl.Entries, func(a, b awsapi.ACLEntry) int {
				return map[bool]int{true: -1, false: 1}[a.Number < b.Number || a.Number == b.Number && a.Egress && !b.Egress]
			})
		}
		slices.SortFunc(got.acls.value, func(a, b awsapi.ACL) int { return strings.Compare(a.ID, b.ID) })
		slices.SortFunc(got.planeGroups.value, func(a, b awsapi.SecurityGroup) int { return -strings.Compare(a.ID, b.ID) })
		got.now = want.now
		want.image.value.Region = aws.Region
		got.types.value[0].BootModes, got.types.value[0].TPM = want.types.value[0].BootModes, true // moto has neither
		slices.Sort(got.offerings.value)
		want.cluster.value.Issuer = got.cluster.value.Issuer // moto's is random
		assert.Equal(t, want, got)
	}
}

// byParameter makes the launch template name its image by a parameter.
func byParameter(w *aws.World) {
	w.Put("/nodes", aws.NodeImage)
	w.Relaunch("resolve:ssm:/nodes")
}

// hide gives the network a zone that hides names of AWS and has records for them.
func hide(w *aws.World) {
	w.Zone("amazonaws.com", "*.eu-west-1.amazonaws.com")
}

// The policy contains exactly the actions of the calls.
func TestThePolicyEqualsTheCalls(t *testing.T) {
	w := served(t)
	byParameter(w)
	hide(w)
	assert.Empty(t, faults(ask(t, instance)))
	assert.Empty(t, faults(ask(t, template)))
	assert.Positive(t, ask(t, Target{Cluster: "none", AMI: aws.NodeImage}).Count(Unknown))
	w.Image(aws.NodeImage).Devices[0].Encrypted, w.Snapshots[0].Encrypted, w.Snapshots[0].KMSKey = true, true, w.Key("")
	w.DefaultKey = w.Snapshots[0].KMSKey
	assert.Positive(t, ask(t, template).Count(Fail), "Auto Scaling cannot use the key")
	calls := w.Count()
	for _, action := range []string{"eks:DescribeNodegroup", "eks:DescribePodIdentityAssociation", "iam:GetOpenIDConnectProvider"} {
		w := served(t)
		assert.Empty(t, faults(ask(t, needing(t, w, action, instance))), action)
		maps.Copy(calls, w.Count())
	}
	assert.Equal(t, Actions(), slices.Sorted(maps.Keys(calls)))
	text, err := Policy()
	require.NoError(t, err)
	var policy struct {
		Statement []struct{ Action []string }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &policy))
	assert.Equal(t, Actions(), policy.Statement[0].Action)
	for _, action := range Actions() {
		_, verb, _ := strings.Cut(action, ":")
		assert.Regexp(t, "^(Describe|Get|List|Simulate)", verb, "the policy must have only reading actions")
		assert.True(t, cli.Operation(action), action)
	}
}

// A denied call makes only the checks that need the call unknown.
func TestDeniedCallsMakeChecksUnknown(t *testing.T) {
	for _, action := range Actions() {
		t.Run(action, func(t *testing.T) {
			w := served(t)
			target := instance
			if action == "ec2:DescribeLaunchTemplateVersions" || action == "ssm:GetParameter" {
				byParameter(w)
				target = template
			}
			if action == "eks:ListClusters" {
				target.Cluster = "none"
			}
			target = needing(t, w, action, target)
			later := []string{"ec2:DescribeInstanceTypeOfferings", "ec2:DescribeSnapshots", "ec2:GetEbsDefaultKmsKeyId",
				"ec2:GetEbsEncryptionByDefault",
				"freetier:GetAccountPlanState", "servicequotas:GetAWSDefaultServiceQuota", "servicequotas:GetServiceQuota"}
			if slices.Contains(later, action) || strings.HasPrefix(action, "kms:") {
				target = template
				w.Image(aws.NodeImage).Devices[0].Encrypted, w.Snapshots[0].Encrypted, w.Snapshots[0].KMSKey = true, true, w.Key("")
				w.DefaultKey = w.Snapshots[0].KMSKey
				if action == "ec2:DescribeInstanceTypeOfferings" || action == "freetier:GetAccountPlanState" ||
					strings.HasPrefix(action, "servicequotas:") {
					w.Image(aws.NodeImage).Devices[0].Encrypted, w.DefaultKey = false, ""
				}
			}
			if strings.HasPrefix(action, "route53:") {
				hide(w)
			}
			w.Deny(action)
			r := ask(t, target)
			if action == simulate {
				assert.Empty(t, faults(r), "the names of the policies decide")
				return
			}
			assert.Zero(t, r.Count(Fail), "%+v", r.Findings)
			assert.Equal(t, 1, r.Count(Unknown), "%+v", r.Findings)
			if action == "eks:ListClusters" {
				return
			}
			for _, f := range r.Findings {
				if f.Verdict == Unknown {
					assert.Contains(t, f.Evidence, "the permission "+action+" is missing", f.Check)
					assert.Equal(t, "eksnode preflight --policy", f.Remedy)
				}
			}
		})
	}
}

// aws-auth must name a role without its path.
func TestAWSAuthNamesRolesWithoutPath(t *testing.T) {
	w := served(t)
	w.Do("iam:CreateRole", "RoleName", "deep", "Path", "/eks/", "AssumeRolePolicyDocument", ec2Trust)
	for _, policy := range sample().profile.value.Role.Policies {
		w.Do("iam:AttachRolePolicy", "RoleName", "deep", "PolicyArn", "arn:aws:iam::aws:policy/"+policy)
	}
	w.Do("iam:RemoveRoleFromInstanceProfile", "InstanceProfileName", "nodes", "RoleName", "node")
	w.Do("iam:AddRoleToInstanceProfile", "InstanceProfileName", "nodes", "RoleName", "deep")
	w.Clusters["my-cluster"]["accessConfig"] = map[string]any{"authenticationMode": "CONFIG_MAP"}
	target := instance
	target.AWSAuth = []byte("kind: ConfigMap\ndata:\n  mapRoles: |\n    - rolearn: arn:aws:iam::123456789012:instance-profile/others\n" +
		"    - rolearn: arn:aws:iam::123456789012:role/deep\n      username: system:node:{{EC2PrivateDNSName}}\n      groups: [system:bootstrappers, system:nodes]\n")
	r := ask(t, target)
	assert.Empty(t, faults(r))
	assert.Zero(t, w.Count()["eks:DescribeAccessEntry"], "EKS refuses this call in the mode CONFIG_MAP")
}

// Invalid credentials are one error, not one for every check.
func TestInvalidCredentialsAreOneError(t *testing.T) {
	w := served(t)
	w.Fail("sts:GetCallerIdentity", 1, "ExpiredToken", 403)
	_, err := Run(t.Context(), connect(t), instance)
	require.EqualError(t, err, "reading the caller's identity: ExpiredToken: as the test wants it")
	assert.Len(t, w.Count(), 1)
}

func TestThrottledCallsAndNewResourcesAreRetried(t *testing.T) {
	w := served(t)
	w.Fail("ec2:DescribeInstances", 2, "InvalidInstanceID.NotFound", 400)
	w.Fail("ec2:DescribeSubnets", 3, "RequestLimitExceeded", 503)
	w.Fail("iam:GetInstanceProfile", 2, "Throttling", 400)
	assert.Empty(t, faults(ask(t, instance)))
}

// A cluster that does not exist is one finding. It says where the cluster does not
// exist, and which clusters exist there.
func TestAMissingClusterIsOneFinding(t *testing.T) {
	w := served(t)
	for _, c := range []struct { // in this order: the last case deletes the cluster
		name   string
		change func()
		want   string
	}{
		{"with another", func() {}, "describing the cluster none: ResourceNotFoundException: No cluster found for name: none.; the region eu-west-1 of the account 123456789012 has these clusters: my-cluster"},
		{"denied", func() { w.Deny("eks:ListClusters") }, "describing the cluster none: ResourceNotFoundException: No cluster found for name: none.; the region eu-west-1 of the account 123456789012 does not have this cluster"},
		{"without", func() { w.Do("eks:DELETE /clusters/my-cluster") },
			"describing the cluster none: ResourceNotFoundException: No cluster found for name: none.; the region eu-west-1 of the account 123456789012 has no cluster"},
	} {
		c.change()
		r := ask(t, Target{Cluster: "none", Instance: "i-1"})
		assert.Equal(t, 1, r.Count(Unknown), "%s: %+v", c.name, r.Findings)
		assert.Equal(t, c.want, r.Findings[0].Evidence, c.name)
		assert.Equal(t, "cluster", r.Findings[0].Check)
		assert.Contains(t, r.Findings[0].Unchecked, "egress")
		w.Heal()
	}
}
