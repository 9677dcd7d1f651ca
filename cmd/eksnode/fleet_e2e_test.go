//go:build e2e && linux && !agent

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// driftedNodes are nodes of an AMI. On the second one, a program and a file in /etc have
// changed, and on the third one only a file in /etc, in the same way.
func driftedNodes(t *testing.T, count int) (w *aws.World, double *ebsdirect.Double) {
	t.Helper()
	files := testkit.CleanNode(t)
	w, double = cloudWith(t, rootDisk(t, files), nil)
	w.Volumes = map[string]aws.Volume{}
	var instances strings.Builder
	journal := testkit.Expanded(t, "../../internal/diagnose/testdata/node.journal.xz")
	for n := range count {
		changed := map[string]string{"var/lib/kubelet/state": fmt.Sprint(n),
			"var/log/journal/1/system.journal": journal}
		if n%3 > 0 {
			changed["etc/motd"] = "changed"
		}
		if n%3 == 1 {
			changed["usr/bin/added"] = "#!/bin/sh\n"
		}
		for name, text := range files {
			if _, has := changed[name]; !has {
				changed[name] = text
			}
		}
		id := fmt.Sprintf("%017d", n)
		w.Volumes["vol-"+id] = aws.Volume{Disk: rootDisk(t, changed), Parent: cloudSnapshot}
		fmt.Fprintf(&instances, `<item><instancesSet><item><instanceId>i-%s</instanceId><imageId>%s</imageId><rootDeviceName>/dev/xvda</rootDeviceName>
<blockDeviceMapping><item><deviceName>/dev/xvda</deviceName><ebs><volumeId>vol-%[1]s</volumeId></ebs></item></blockDeviceMapping></item></instancesSet></item>`, id, cloudImage)
	}
	w.Answer("ec2:DescribeInstances", "<R><reservationSet>"+instances.String()+"</reservationSet></R>")
	return w, double
}

func TestDriftOfNodesIsFound(t *testing.T) {
	w, double := driftedNodes(t, 3)
	out := succeeds(t, "fleet", "audit", "--cluster", "demo", "--dry-run")
	assert.Contains(t, out, "i-00000000000000001  "+cloudImage+"  vol-00000000000000001\n")
	assert.Contains(t, out, "3 nodes; reading all blocks of 1 AMI costs at most 0.02 USD")
	assert.Zero(t, w.Count()["ec2:CreateSnapshot"])

	out, _ = exits(t, 1, "fleet", "audit", "--cluster", "demo", "--output", "json", "--rules", "machine-id")
	r := testkit.JSON[fleetReport](t, out)
	require.Len(t, r.Nodes, 3)
	second, third := "i-00000000000000001", "i-00000000000000002"
	assert.Contains(t, r.Drift, drift{"program", "/usr/bin/added", "added", []string{second}})
	assert.Contains(t, r.Drift, drift{"configuration", "/etc/motd", "added", []string{second, third}})
	read := int(double.Count().Fetched/ebsdirect.BlockSize) - len(double.Blocks(cloudSnapshot))
	changed := 0
	for _, n := range r.Nodes {
		changed += n.Blocks
		assert.Empty(t, n.Error)
		assert.Positive(t, n.Blocks)
		assert.Positive(t, n.State)
		assert.Len(t, n.Boots, 2)
	}
	assert.Less(t, read, 2*changed, "of nodes, only changed blocks are read, some again after a fault of the double")
	assert.Len(t, w.Snapshots, 1, "only the AMI's own stays")
	assert.Empty(t, cached(t))

	// A snapshot that cannot be deleted is named, and the next run uses and deletes it. A
	// node that cannot be read is named too.
	w.Deny("ec2:DeleteSnapshot")
	out, _ = exits(t, 2, "fleet", "audit", third, "--rules", "machine-id")
	assert.Regexp(t, "unknown        "+third+": deleting the snapshot snap-.*: the permission ec2:DeleteSnapshot is missing", out)
	w.Heal()
	made, there := w.Count()["ec2:CreateSnapshot"], len(w.Snapshots)
	existing := []string{"fleet", "audit", "--cluster", "demo", "--existing-snapshots", "--rules", "machine-id",
		"--output", "sarif"}
	file := filepath.Join(t.TempDir(), "fleet.md")
	out, _ = exits(t, 1, append(existing, "--report", file)...)
	text := testkit.Content(t, file)
	assert.Contains(t, text, "- ` configuration `: ` /etc/motd `: ` added `: ` "+second+", "+third+" `\n")
	assert.Regexp(t, "- ` "+second+" `: ` 2026-.* UTC `: ` 2026-.* UTC `\n", text)
	assert.Contains(t, out, "/etc/motd (added) on 2 nodes: "+second+", "+third)
	assert.Contains(t, out, `"ruleId": "drift-configuration"`)
	assert.Equal(t, made, w.Count()["ec2:CreateSnapshot"])
	assert.Len(t, w.Snapshots, there, "the snapshots stay")
	w.Deny("ec2:CreateSnapshot")
	out, _ = exits(t, 1, "fleet", "audit", "--tags", "team=", "--rules", "machine-id")
	assert.Contains(t, out, "program        /usr/bin/added  (added)  1 of 3: "+second+"\n")
	assert.Contains(t, out, third+" of "+cloudImage+": ")
	assert.Len(t, w.Snapshots, 1)
	out, _ = exits(t, 2, "fleet", "audit", third, "--rules", "machine-id")
	assert.Contains(t, out, "unknown        "+second+": making a snapshot of the root volume of "+second+": the permission ec2:CreateSnapshot is missing")
	out, _ = exits(t, 2, existing...)
	assert.Contains(t, out, "could not check: "+second+": looking for a snapshot of the root volume of "+second+": vol-00000000000000001 has no")
}
