//go:build e2e && full && linux

package main

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
)

// The same with fifty moments.
func TestFiftyKilledProofsLeaveNothing(t *testing.T) { killed(t, 50) }

// makers are the steps that make a kind of resource.
var makers = map[string]string{
	"node group": "nodegroup", "instance": "launch", "Allowed AMIs setting": "approve",
	"key pair": "network", "security group": "network", "launch template": "launch", "AMI": "import",
	"snapshot": "import", "parameter": "publish", "access entry": "role", "cluster": "cluster", "instance profile": "role",
	"role": "role", "subnet": "network", "internet gateway": "network", "VPC": "network",
}

// spared are actions without which a run works: eksnode manifests then takes it that the role
// has no instance profile, and with UNCHECKED=1 nothing is simulated.
var spared = []string{"iam:ListInstanceProfilesForRole", "iam:SimulatePrincipalPolicy"}

// Each action of the policy is removed once, with UNCHECKED=1. The run fails and names the
// action. It runs the first step that needs the action, or the step that makes what the
// teardown needs the action for. Where that step works without, another one fails: the import
// with a parent, preflight, publish, or the teardown with the cluster of another.
func TestThePolicyIsLeast(t *testing.T) {
	w := double(t)
	other := theirs(w)
	before := all(w)
	o := testOptions(t)
	o.unchecked = true
	needed := func(of []step) []string {
		least, err := policy(o.eksnode, o.repository, of)
		require.NoError(t, err)
		return actions(t, least)
	}
	first := map[string]string{}
	for _, k := range kinds { // the last one is made first
		lines, err := commands(k.List + "\n" + k.Delete)
		require.NoError(t, err)
		for _, line := range lines {
			if line[0] == "aws" {
				action, err := cli.Action(line[1:])
				require.NoError(t, err)
				first[action] = makers[k.Name]
			}
		}
	}
	// e2e/ebs compares what Packer needs with its calls.
	runs := slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.Template != "" })
	always := needed(nil)
	for _, s := range slices.Backward(runs) {
		for _, action := range needed([]step{s}) {
			if !slices.Contains(always, action) {
				first[action] = s.Name
			}
		}
	}
	for _, action := range needed(runs) {
		if unseen.MatchString(action) || slices.Contains(spared, action) {
			continue
		}
		_, operation, _ := strings.Cut(action, ":")
		var err error
		for _, attempt := range []struct{ only, cluster string }{
			{cmp.Or(first[action], "network"), ""}, {"parent", ""}, {"launch", ""}, {"publish", ""}, {"role", other},
		} {
			o.folder, o.only, o.cluster = t.TempDir(), attempt.only, attempt.cluster
			w.Deny(action)
			_, _, err = o.proven(t.Context(), t)
			w.Heal()
			cleaned := o
			cleaned.clean = true
			require.NoError(t, cleaned.main(t.Context(), nil, io.Discard))
			assert.Equal(t, before, all(w), action)
			if err != nil && strings.Contains(err.Error(), operation) {
				break
			}
		}
		assert.ErrorContains(t, err, operation, "without %s", action)
		t.Logf("%s: %s %s", action, o.only, o.cluster)
	}
}
