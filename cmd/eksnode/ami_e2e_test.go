//go:build e2e && linux && !agent

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

// fleet returns a world with five Debian images, a month apart, newest first, and
// one Arch image.
func fleet(t *testing.T) *aws.World {
	t.Helper()
	w := aws.New(t)
	image := func(n int, distro string) {
		id := fmt.Sprintf("snap-%d", n)
		w.Snapshots = append(w.Snapshots, &aws.Snapshot{ID: id, Owner: aws.Account})
		i := aws.NewImage(fmt.Sprintf("ami-%08d", n), fmt.Sprintf("%s-%d", distro, n), aws.Account, time.Now().AddDate(0, 0, -30*n).UTC().Format(time.RFC3339))
		i.Devices = []aws.Drive{{Name: "/dev/xvda", Snapshot: id}}
		i.Tags = []aws.Tag{{Key: "eksnode:distro", Value: distro}, {Key: "eksnode:kubernetes-version", Value: fmt.Sprintf("1.34.%d", 9-n)}}
		w.Images = append(w.Images, i)
	}
	for n := range 5 {
		image(n, "debian")
	}
	image(9, "arch")
	w.Images = append(w.Images, aws.NewImage("ami-99999999", "other", aws.Account, ""))
	w.PageSize = 2
	w.Serve()
	return w
}

// The commands find AMIs by the tags that README's template takes from eksnode-contents.
func TestAMIsOfTheSmallestTemplateAreFound(t *testing.T) {
	w := sampled(t)
	for n, id := range []string{aws.NodeImage, "ami-00000001"} {
		if n > 0 {
			w.Images = append(w.Images, aws.NewImage(id, "older", aws.Account, "2025-01-01T00:00:00Z"))
		}
		w.Image(id).Tags = nil
		for key, value := range manifest.Tags(fmt.Sprintf("1.34.%d", 4-n), "debian", "amd64", map[string]string{"kubelet": fmt.Sprintf("1.34.%d", 4-n)}) {
			w.Image(id).Tags = append(w.Image(id).Tags, aws.Tag{Key: key, Value: value})
		}
	}
	w.Put("/candidate", aws.NodeImage)
	w.Put("/stable", "ami-00000001")
	for args, want := range map[string]string{
		"ami list": "distro=debian", "ami retire --keep 1 --older-than 1": "deprecate ami-00000001 ",
		"ami promote --from /candidate --to /stable":            "/stable in eu-west-1 is " + aws.NodeImage + "; it was ami-00000001\n",
		"preflight --cluster my-cluster --ami " + aws.NodeImage: "kubelet 1.34.4 by the image's tag",
	} {
		out, _ := exits(t, 0, strings.Fields(args)...)
		assert.Contains(t, out, want)
	}
}

func TestAMIDiffShowsTags(t *testing.T) {
	w := fleet(t)
	w.Image("debian-1").Tags = append(w.Image("debian-1").Tags, aws.Tag{Key: "Name", Value: "x"})
	_, out, _ := command(t, "", "ami", "diff", "ami-00000000", "ami-00000001")
	assert.Equal(t, "+ tag Name: x\n~ tag eksnode:kubernetes-version: 1.34.9 -> 1.34.8\n2 differences between ami-00000000 and ami-00000001\n", out)
}

func TestAMIRetireDeprecatesAndDeregisters(t *testing.T) {
	w := fleet(t)
	_, out, _ := command(t, "", "ami", "retire", "--keep", "2", "--older-than", "85")
	assert.Contains(t, out, "deprecate ami-00000003 (debian-3, made ")
	assert.Contains(t, out, "\n2 of 6 images would be retired; --yes makes the changes\n")
	_, list, _ := command(t, "", "ami", "retire", "--keep", "2", "--older-than", "85", "--output", "json")
	assert.Contains(t, list, `"action": "deprecate",`)
	assert.Contains(t, list, `"image": "ami-00000003",`)
	assert.Contains(t, list, `"done": false,`)
	assert.Empty(t, w.Count()["ec2:EnableImageDeprecation"], "without --yes no image may be deprecated")

	_, out, _ = command(t, "", "ami", "retire", "--keep", "2", "--older-than", "85", "--yes")
	assert.Contains(t, out, "\n2 of 6 images retired\n")
	assert.NotEmpty(t, w.Image("debian-3").Deprecated)
	assert.Empty(t, w.Image("arch-9").Deprecated, "the only image of a distribution stays, however old")
	_, out, _ = command(t, "", "ami", "retire", "--keep", "2", "--older-than", "85", "--yes")
	assert.Equal(t, "0 of 6 images retired\n", out, "the second run must change nothing")

	// Builds set a deprecation date in the future. Such images are not retired yet.
	w.Image("debian-2").Deprecated = time.Now().AddDate(0, 6, 0).UTC().Format(time.RFC3339)
	assert.Equal(t, "0 of 6 images would be retired; --yes makes the changes\n", succeeds(t, "ami", "retire", "--keep", "1", "--older-than", "200000"))
	_, out, _ = command(t, "", "ami", "retire", "--keep", "1", "--older-than", "45")
	assert.Contains(t, out, "deprecate ami-00000002 ")
	_, out, _ = command(t, "", "ami", "list")
	assert.Contains(t, out, "available until ")

	// A failed image does not count for --keep.
	w.Image("debian-0").State = "failed"
	_, out, _ = command(t, "", "ami", "retire", "--keep", "3", "--older-than", "0", "--deregister")
	assert.NotContains(t, out, "ami-00000000")
	assert.NotContains(t, out, "ami-00000003")
	w.Image("debian-0").State = "available"

	w.Image("debian-2").Deprecated = ""
	_, out, _ = command(t, "", "ami", "retire", "--keep", "2", "--older-than", "85", "--deregister")
	assert.Equal(t, notSeen+"deregister "+made(w, "debian-3")+"\nderegister "+made(w, "debian-4")+"\n2 of 6 images would be retired; --yes makes the changes\n", out)
	assert.Empty(t, w.Count()["ec2:DeregisterImage"])
	out = succeeds(t, "ami", "retire", "--keep", "2", "--older-than", "115", "--deregister", "--yes")
	assert.Contains(t, out, "deregister ami-00000004 (debian-4, made ")
	assert.Equal(t, []string{"snap-0", "snap-1", "snap-2", "snap-3", "snap-9"}, w.SnapshotIDs())
	assert.Len(t, w.Images, 6)

	w.Deny("ec2:DescribeImages")
	_, errOut := exits(t, 2, "ami", "retire", "--yes")
	assert.Contains(t, errOut, "the permission ec2:DescribeImages is missing")
}

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

	out := succeeds(t, "ami", "list", "--orphans")
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
	out = succeeds(t, "ami", "retire", "--orphans")
	assert.Contains(t, out, "delete the snapshot snap-0b in us-east-1 (no AMI has it, pending, started ")
	assert.Regexp(t, `keep the snapshot snap-0d .*; used by: a permission for the account 111111111111\n`, out)
	assert.Contains(t, out, "keep the snapshot snap-0e in eu-west-1 (no AMI has it, younger than 3 days, completed, started ")
	assert.Contains(t, out, "\n3 of 5 orphans would be retired; --yes makes the changes\n")
	assert.Len(t, w.Snapshots, before)

	w.Fail("ec2:DeleteSnapshot", 1, "OperationNotPermitted", 400)
	out, errOut := exits(t, 1, "ami", "retire", "--orphans", "--yes")
	assert.Contains(t, errOut, "eksnode: in eu-west-1: deleting the snapshot snap-0a: OperationNotPermitted: as the test wants it (AWS request ID: ")
	assert.Contains(t, out, "\n2 of 5 orphans retired\n")
	assert.Len(t, w.Snapshots, before-2)

	w.Deny("us-east-1")
	out, errOut = exits(t, 2, "ami", "retire", "--orphans", "--older-than", "0", "--yes", "--output", "json")
	assert.Contains(t, errOut, "in us-east-1: listing your snapshots: the permission ec2:DescribeSnapshots is missing")
	assert.Contains(t, out, `"action": "delete",`)
	assert.Contains(t, out, `"orphans": 3,`)
	assert.Len(t, w.Snapshots, before-4, "only the shared one stays")
}

// An AMI and its snapshots are removed by one call, so no interruption leaves a snapshot.
func TestAnAMIIsRetiredByOneCall(t *testing.T) {
	w := fleet(t)
	args := strings.Fields("ami retire --deregister --keep 2 --older-than 115 --yes")
	succeeds(t, args...)
	assert.NotContains(t, w.SnapshotIDs(), "snap-4")
	assert.Equal(t, 1, w.Count()["ec2:DeregisterImage"])
	assert.Zero(t, w.Count()["ec2:DeleteSnapshot"])

	// The answer of the call is lost, and its repeat finds nothing.
	w = fleet(t)
	w.Behave(aws.Behaviour{Faults: map[string]aws.Fault{"ec2:DeregisterImage eu-west-1 #1": aws.Lost}})
	out := succeeds(t, args...)
	assert.Contains(t, out, "\n1 of 6 images retired\n")
	assert.NotContains(t, w.SnapshotIDs(), "snap-4")
	assert.Nil(t, w.Image("debian-4"))
	assert.Contains(t, w.Trace(), "ec2:DeregisterImage eu-west-1 #2", "the SDK repeats the call")
}

// staged returns a regional world with a candidate and a stable AMI in two regions.
func staged(t *testing.T) *aws.World {
	w := regional(t)
	for region, images := range map[string][2]string{aws.Region: {"ami-00000000", "ami-00000001"}, "eu-north-1": {"ami-10000000", "ami-10000001"}} {
		w.PutIn(region, "/n/candidate", images[0])
		w.PutIn(region, "/n/stable", images[1])
	}
	return w
}

func TestAMIPromoteCopiesTheParameter(t *testing.T) {
	const (
		args  = "ami promote --from /n/candidate --to /n/stable"
		west  = "/n/stable in eu-west-1 is ami-00000000; it was ami-00000001\n"
		north = "/n/stable in eu-north-1 is ami-10000000; it was ami-10000001\n"
	)
	w := staged(t)
	out := succeeds(t, strings.Fields(args)...)
	undo := "to undo, with the same credentials:\n  eksnode ami publish eu-west-1:ami-00000001 --parameter /n/stable\n"
	assert.Equal(t, west+undo, out)
	assert.Equal(t, "ami-00000000", w.Parameter(aws.Region, "/n/stable").Value)
	assert.Equal(t, "ami-10000001", w.Parameter("eu-north-1", "/n/stable").Value)

	out = succeeds(t, strings.Fields(args+" --all-regions")...)
	undo = "to undo, with the same credentials:\n  eksnode ami publish eu-north-1:ami-10000001 --parameter /n/stable\n"
	assert.Equal(t, north+"/n/stable in eu-west-1 is already ami-00000000\n"+undo, out)
	assert.Equal(t, "ami-10000000", w.Parameter("eu-north-1", "/n/stable").Value)
	out = succeeds(t, strings.Fields(strings.TrimPrefix(strings.TrimSpace(strings.Split(undo, "\n")[1]), "eksnode "))...)
	assert.Equal(t, "/n/stable in eu-north-1 is ami-10000001\n", out)

	_, out, _ = command(t, "", strings.Fields("ami promote --from /n/candidate --to /n/beta --all-regions --output json")...)
	assert.JSONEq(t, `[{"region":"eu-north-1","parameter":"/n/beta","image":"ami-10000000","changed":true},{"region":"eu-west-1","parameter":"/n/beta","image":"ami-00000000","changed":true}]`, out)
}

// If a check fails in one region, no region is changed.
func TestAMIPromoteRefuses(t *testing.T) {
	const image = "eksnode: nothing was changed:\nami-10000000 in eu-north-1: "
	for name, c := range map[string]struct {
		change func(*aws.World)
		args   string
		code   int
		want   string // error
		forced bool   // whether --force promotes
	}{
		"pending":     {func(w *aws.World) { w.Image("ami-10000000").State = "pending" }, "", 1, image + "the image is pending\n", false},
		"deprecated":  {func(w *aws.World) { w.Image("ami-10000000").Deprecated = "2026-01-02T00:00:00Z" }, "", 1, image + "the image is deprecated since 2026-01-02\n", true},
		"no tags":     {func(w *aws.World) { w.Image("ami-10000000").Tags = nil }, "", 1, image + "the image has no tag eksnode:distro\nami-10000000 in eu-north-1: the image has no tag eksnode:kubernetes-version\n", true},
		"another CPU": {func(w *aws.World) { w.Image("ami-10000001").Architecture = "arm64" }, "", 1, image + "the image is for x86_64, not arm64; /n/stable has ami-10000001\n", true},
		"another distribution": {func(w *aws.World) { w.Image("ami-10000001").Tags[0].Value = "arch" }, "", 1,
			image + "the distribution is debian, not arch; /n/stable has ami-10000001\n", true},
		"an older Kubernetes": {func(w *aws.World) {
			w.Image("ami-10000001").Tags = []aws.Tag{{Key: "eksnode:kubernetes-version", Value: "1.34.10"}}
		}, "", 1,
			image + "Kubernetes 1.34.9 is older than 1.34.10; /n/stable has ami-10000001\n", true},
		"an older build": {func(w *aws.World) { w.Image("ami-10000001").Created = time.Now().UTC().Format(time.RFC3339) }, "", 1,
			image + "the image was made on " + time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly) + ", before " + time.Now().UTC().Format(time.DateOnly) + "; /n/stable has ami-10000001\n", true},
		"different builds": {func(w *aws.World) { w.PutIn("eu-north-1", "/n/candidate", "ami-10000001") }, "", 1,
			"ami-00000000 in eu-west-1: the processor or the eksnode tags differ from those of ami-10000001 in eu-north-1\n", true},
		"no image":             {func(w *aws.World) { w.PutIn("eu-north-1", "/n/candidate", "ami-77777777") }, "", 1, "in eu-north-1: describing the image ami-77777777: InvalidAMIID.NotFound", false},
		"no ID":                {func(w *aws.World) { w.PutIn("eu-north-1", "/n/candidate", "debian") }, "", 1, `in eu-north-1: reading the parameter /n/candidate: "debian" is not an AMI ID`, false},
		"a region without one": {func(*aws.World) {}, "--region eu-west-1,us-east-1", 1, "in us-east-1: reading the parameter /n/candidate: ParameterNotFound", false},
		"no parameter":         {func(*aws.World) {}, "--from /x --all-regions", 2, "eksnode: reading the parameter /x: no region has the parameter\n", false},
		"denied":               {func(w *aws.World) { w.Deny("ssm:GetParameter") }, "", 2, "in eu-north-1, eu-west-1: reading the parameter /n/candidate: the permission ssm:GetParameter is missing", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := staged(t)
			c.change(w)
			args := "ami promote --from /n/candidate --to /n/stable --region eu-west-1,eu-north-1 " + c.args
			if strings.Contains(c.args, "-region") {
				args = "ami promote --from /n/candidate --to /n/stable " + c.args
			}
			code, out, errOut := command(t, "", strings.Fields(args)...)
			assert.Equal(t, c.code, code)
			assert.Contains(t, errOut, c.want)
			if c.code == 1 {
				assert.Empty(t, out)
				assert.Empty(t, w.Count()["ssm:PutParameter"])
				assert.Equal(t, "ami-00000001", w.Parameter(aws.Region, "/n/stable").Value)
			}
			w.Heal()
			code, _, errOut = command(t, "", strings.Fields(args+" --force")...)
			if c.code == 1 {
				assert.Equal(t, c.forced, code == 0, errOut)
			}
		})
	}
}

// A stable AMI that no longer exists is no reason to refuse. An unread region is
// reported.
func TestAMIPromoteWithoutAnOldImage(t *testing.T) {
	w := staged(t)
	w.PutIn("eu-north-1", "/n/stable", "ami-77777777")
	w.Deny("us-east-1")
	out, errOut := exits(t, 2, strings.Fields("ami promote --from /n/candidate --to /n/stable --all-regions")...)
	assert.Contains(t, errOut, "eksnode: in us-east-1: reading the parameter /n/candidate: the permission ssm:GetParameter is missing")
	assert.Contains(t, out, "/n/stable in eu-north-1 is ami-10000000; it was ami-77777777\n/n/stable in eu-west-1 is ami-00000000; ")
}
