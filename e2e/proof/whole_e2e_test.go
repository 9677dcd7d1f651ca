//go:build e2e && linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// unseen are actions of the policy that no call has, because AWS itself makes them, or that
// only happen in other accounts, such as those with AMIs to retire, on failures, with KMS keys or
// for audits of copies, and after
// a packer that was killed.
var unseen = regexp.MustCompile(`^(ebs:|kms:|iam:(CreateServiceLinkedRole|DeletePolicy|PassRole|TagRole|GetOpenIDConnectProvider|GetPolicy|GetPolicyVersion)$|eks:(TagResource|DescribePodIdentityAssociation)$|` +
	`autoscaling:|ssm:(GetParameterHistory|GetParameters)$|ec2:(DescribeFleets|DescribeSnapshotAttribute|DescribeSpotFleetRequests|DescribeSpotInstanceRequests)$|` +
	`servicequotas:|ec2:(CreateTags|DeleteKeyPair|DeleteSecurityGroup|DeleteSnapshot|ModifyImageAttribute|ModifySnapshotAttribute|EnableImageDeprecation|DescribeImageAttribute|GetEbsDefaultKmsKeyId|GetImageAncestry|GetImageBlockPublicAccessState|DescribeInstanceAttribute|DescribeNatGateways)$|route53:)`)

// actions are those of a policy that the program printed, without KMS.
func actions(t *testing.T, least string) []string {
	t.Helper()
	document := testkit.JSON[struct{ Statement []statement }](t, least)
	return document.Statement[0].Action
}

// whole runs the program with its own policy alone, and returns its output, report and policy.
// Every step succeeds, and the account is as before.
func (o options) whole(t *testing.T, w *aws.World) (string, report, string) {
	t.Helper()
	before := all(w)
	var least bytes.Buffer
	asked := o
	asked.policy = true
	require.NoError(t, asked.main(t.Context(), nil, &least))
	w.Permit(least.String())
	out, r, err := o.proven(t.Context(), t)
	log, _ := os.ReadFile(filepath.Join(o.folder, "log"))
	require.NoError(t, err, string(log))
	assert.Equal(t, ok, r.Result)
	for _, s := range r.Steps {
		assert.Equal(t, ok, s.Result, s.Step)
		assert.NotEmpty(t, s.Calls, s.Step)
		assert.Empty(t, s.Differences, "%s: record the shapes with -update", s.Step)
	}
	assert.Empty(t, r.Left)
	assert.Equal(t, before, all(w))
	if *update {
		o.record(t)
	}
	return out, r, least.String()
}

// record keeps the shapes of a run, and for IPv6 also those of the whole proof before.
func (o options) record(t *testing.T) {
	t.Helper()
	run, kept := shapes{}, shapes{}
	require.NoError(t, json.Unmarshal([]byte(testkit.Content(t, filepath.Join(o.folder, "shapes.json"))), &run))
	if o.family == "ipv6" {
		require.NoError(t, json.Unmarshal([]byte(testkit.Content(t, "shapes.json")), &kept))
	}
	for step, actions := range run {
		if kept[step] == nil {
			kept[step] = map[string][]string{}
		}
		for action, names := range actions {
			all := slices.Concat(kept[step][action], names)
			slices.Sort(all)
			kept[step][action] = slices.Compact(all)
		}
	}
	require.NoError(t, kept.write("shapes.json"))
}

// The whole proof runs with its own policy, and the policy has no action without a call.
func TestTheWholeProof(t *testing.T) {
	w := double(t)
	o := testOptions(t)
	out, r, least := o.whole(t, w)
	assert.Contains(t, out, "Estimate: 204 minutes with the teardown, USD 0.98.\n")
	assert.Contains(t, out, "packer     left out: it needs PACKER=\n")
	require.Len(t, r.Steps, len(steps)-1)
	for _, s := range r.Steps {
		assert.Regexp(t, map[string]string{
			"launch": `^seconds since RunInstances: running \d+, registered \d+, Ready \d+$`, "unscrubbed": `Unauthorized`,
			"approve":   `^audit-mode$`,
			"bootstrap": `Ready \d+$`, "systems": `-offline-amazonlinux2023: .*\n.*-offline-arch: .*Ready \d+$`, "karpenter": `^a pod runs on aws:///eu-west-1a/i-\w+$`, "share": `^210987654321$`,
		}[s.Step], s.Evidence, s.Step)
	}
	assert.NotEmpty(t, r.Steps[0].Calls[0].Request, "the request ID of AWS")
	text := testkit.Content(t, filepath.Join(o.folder, "report.md"))
	assert.Contains(t, text, "| nodegroup | ok |")
	assert.Contains(t, text, "Nothing is left.")

	called := w.Count()
	for _, action := range actions(t, least) {
		if called[action] == 0 && !unseen.MatchString(action) {
			t.Errorf("the policy has %s, which no call needs", action)
		}
	}
}

// In an IPv6 cluster, user data of both contracts has its family and its services' network,
// pods have IPv6 addresses, and the VPC CNI's policy is deleted.
func TestAnIPv6Cluster(t *testing.T) {
	w := double(t)
	o := testOptions(t)
	o.family, o.only = "ipv6", "bootstrap,nodegroup"
	out, r, least := o.whole(t, w)
	assert.Contains(t, out, "IP family ipv6")
	assert.Contains(t, out, "a VPC with two public subnets; IPv6 networks for both\n")
	assert.Contains(t, least, `"iam:CreatePolicy"`)
	assert.Equal(t, "ipv6", r.Family)
	assert.Equal(t, 1, w.Count()["iam:CreatePolicy"])
	for contract, said := range map[string]string{
		"nodeconfig": "cidr: fd30:1234:5678::/108",
		"bootstrap":  "--ip-family 'ipv6' \\\n  --service-ipv6-cidr 'fd30:1234:5678::/108'",
	} {
		template := testkit.JSON[struct{ UserData []byte }](t,
			testkit.Content(t, filepath.Join(o.folder, contract+".json")))
		assert.Contains(t, string(template.UserData), said)
	}
}
