//go:build e2e && linux && !agent

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
)

// orphaned adds a snapshot of an age in days, in a region or in all.
func orphaned(w *aws.World, id, region, description string, days int, tags ...string) *aws.Snapshot {
	s := &aws.Snapshot{
		ID: id, Region: region, Owner: aws.Account, State: "completed", Size: 8, Description: description,
		Started: time.Now().AddDate(0, 0, -days).Add(-time.Minute).UTC().Format(time.RFC3339),
	}
	if description == "" {
		tags = append(tags, "eksnode:distro")
	}
	for _, key := range tags {
		s.Tags = append(s.Tags, aws.Tag{Key: key, Value: "x"})
	}
	w.Snapshots = append(w.Snapshots, s)
	return s
}

// Snapshots with eksnode's tags and copies of its AMIs are found in all regions, and
// those of others, of AWS services, and of AMIs that do not show them yet, are not.
func TestOrphansAreFoundInAllRegions(t *testing.T) {
	w := fleet(t)
	w.Enabled = []string{"eu-west-1", "us-east-1"}
	orphaned(w, "snap-0a", "eu-west-1", "", 9)
	orphaned(w, "snap-0b", "us-east-1", "", 8).State = "pending"
	orphaned(w, "snap-0c", "us-east-1", "Copied for DestinationAmi ami-0dead from SourceAmi ami-00000001 for SourceSnapshot snap-1. Task created", 7)
	orphaned(w, "snap-0d", "eu-west-1", "", 6).Shares = []aws.Share{{Account: "111111111111"}}
	orphaned(w, "snap-0e", "eu-west-1", "", 1)
	orphaned(w, "snap-10", "eu-west-1", "", 9, "aws:backup:source-resource")
	orphaned(w, "snap-11", "eu-west-1", "a database", 9)
	orphaned(w, "snap-12", "us-east-1", "Copied for DestinationAmi ami-0dead from SourceAmi ami-99999999", 9)
	orphaned(w, "snap-13", "eu-west-1", "Copied for DestinationAmi ami-00000002 from SourceAmi ami-00000001", 9)
	orphaned(w, "snap-14", "eu-west-1", "Created by CreateImage(i-1) for ami-00000002", 9, "eksnode:distro")
	orphaned(w, "snap-15", "eu-west-1", "", 9)
	disabled := aws.NewImage("ami-00000015", "disabled", aws.Account, "")
	disabled.State, disabled.Devices = "disabled", []aws.Drive{{Name: "/dev/xvda", Snapshot: "snap-15"}}
	w.Images = append(w.Images, disabled)

	code, out, errOut := command(t, "", "ami", "list", "--orphans")
	require.Equal(t, 0, code, errOut)
	var found []string
	for line := range strings.Lines(out) {
		found = append(found, strings.Join(strings.Fields(line)[:2], " "))
	}
	assert.Equal(t, []string{"SNAPSHOT REGION", "snap-0a eu-west-1", "snap-0b us-east-1", "snap-0c us-east-1", "snap-0d eu-west-1", "snap-0e eu-west-1"}, found)
	assert.Contains(t, out, "8 GiB  pending    no AMI has it\n")
	assert.Contains(t, out, "a copy of ami-00000001 for ami-0dead, which does not exist\n")
	_, out, _ = command(t, "", "ami", "list", "--orphans", "--region", "us-east-1", "--output", "json")
	assert.Equal(t, 2, strings.Count(out, `"snapshot"`))

	before := len(w.Snapshots)
	code, out, errOut = command(t, "", "ami", "retire", "--orphans")
	require.Equal(t, 0, code, errOut)
	assert.Contains(t, out, "delete the snapshot snap-0b in us-east-1 (no AMI has it, pending, started ")
	assert.Regexp(t, `keep the snapshot snap-0d .*; used by: a permission for the account 111111111111\n`, out)
	assert.Contains(t, out, "keep the snapshot snap-0e in eu-west-1 (no AMI has it, younger than 3 days, completed, started ")
	assert.Contains(t, out, "\n3 of 5 orphans would be retired; --yes makes the changes\n")
	assert.Len(t, w.Snapshots, before)

	w.Fail("ec2:DeleteSnapshot", 1, "OperationNotPermitted", 400)
	code, out, errOut = command(t, "", "ami", "retire", "--orphans", "--yes")
	assert.Equal(t, 1, code)
	assert.Contains(t, errOut, "eksnode: in eu-west-1: deleting the snapshot snap-0a: OperationNotPermitted: as the test wants it (AWS request ID: ")
	assert.Contains(t, out, "\n2 of 5 orphans retired\n")
	assert.Len(t, w.Snapshots, before-2)

	w.Deny("us-east-1")
	code, out, errOut = command(t, "", "ami", "retire", "--orphans", "--older-than", "0", "--yes", "--output", "json")
	assert.Equal(t, 2, code)
	assert.Contains(t, errOut, "in us-east-1: listing your snapshots: the permission ec2:DescribeSnapshots is missing")
	assert.Contains(t, out, `"action": "delete",`)
	assert.Contains(t, out, `"orphans": 3,`)
	assert.Len(t, w.Snapshots, before-4, "only the shared one stays")

	_, _, errOut = command(t, "", "ami", "retire", "--orphans", "--deregister")
	assert.Equal(t, "eksnode: --orphans excludes --deregister and --keep; orphans are snapshots, and no AMIs\n", errOut)
}

// An AMI and its snapshots are removed by one call, so no interruption leaves a snapshot.
func TestAnAMIIsRetiredByOneCall(t *testing.T) {
	w := fleet(t)
	args := strings.Fields("ami retire --deregister --keep 2 --older-than 115 --yes")
	code, _, errOut := command(t, "", args...)
	require.Equal(t, 0, code, errOut)
	assert.NotContains(t, w.SnapshotIDs(), "snap-4")
	assert.Equal(t, 1, w.Count()["ec2:DeregisterImage"])
	assert.Zero(t, w.Count()["ec2:DeleteSnapshot"])

	// The answer of the call is lost, and its repeat finds nothing.
	w = fleet(t)
	w.Behave(aws.Behaviour{Faults: map[string]aws.Fault{"ec2:DeregisterImage eu-west-1 #1": aws.Lost}})
	code, out, errOut := command(t, "", args...)
	require.Equal(t, 0, code, errOut)
	assert.Contains(t, out, "\n1 of 6 images retired\n")
	assert.NotContains(t, w.SnapshotIDs(), "snap-4")
	assert.Nil(t, w.Image("debian-4"))
	assert.Contains(t, w.Trace(), "ec2:DeregisterImage eu-west-1 #2", "the SDK repeats the call")
}
