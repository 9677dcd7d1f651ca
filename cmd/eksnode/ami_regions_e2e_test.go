//go:build e2e && linux && !agent

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
)

// regional returns a world with four Debian builds, a month apart. Each has an image in
// eu-west-1, a copy with tags in eu-north-1 and a copy without tags in us-east-1.
func regional(t *testing.T) *aws.World {
	t.Helper()
	w := aws.New(t)
	w.Enabled = []string{"eu-west-1", "eu-north-1", "us-east-1"}
	for n := range 4 {
		snapshot := fmt.Sprintf("snap-%d", n)
		w.Snapshots = append(w.Snapshots, &aws.Snapshot{Region: aws.Region, ID: snapshot, Owner: aws.Account})
		i := aws.NewImage(fmt.Sprintf("ami-0000000%d", n), fmt.Sprintf("debian-%d", n), aws.Account, time.Now().AddDate(0, 0, -30*n-1).UTC().Format(time.RFC3339))
		i.Region, i.SourceInstance, i.Source, i.SourceRegion = aws.Region, "i-1", "ami-99999999", aws.Region
		i.Devices = []aws.Drive{{Name: "/dev/xvda", Snapshot: snapshot}}
		i.Tags = []aws.Tag{{Key: "eksnode:distro", Value: "debian"}, {Key: "eksnode:kubernetes-version", Value: fmt.Sprintf("1.34.%d", 9-n)}}
		w.Images = append(w.Images, i)
		w.Copy(i.ID, "eu-north-1", fmt.Sprintf("ami-1000000%d", n), true)
		w.Copy(i.ID, "us-east-1", fmt.Sprintf("ami-2000000%d", n), false)
	}
	w.Images = append(w.Images, aws.NewImage("ami-99999999", "base", aws.Account, "2020-01-01T00:00:00Z"))
	w.Serve()
	return w
}

// rows returns the ID and the region of each line of a list.
func rows(out string) []string {
	var all []string
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "ami-") {
			all = append(all, fields[0]+" "+fields[1])
		}
	}
	return all
}

func TestAMIListShowsAllRegions(t *testing.T) {
	w := regional(t)
	w.Images = w.Images[:3]
	out := succeeds(t, "ami", "list", "--all-regions")
	assert.Equal(t, []string{"ami-10000000 eu-north-1", "ami-00000000 eu-west-1", "ami-20000000 us-east-1"}, rows(out))
	assert.Contains(t, out, "copy of eu-west-1:ami-00000000\n")
	for args, want := range map[string][]string{
		"":                              {"ami-00000000 eu-west-1"},
		"--region eu-north-1":           {"ami-10000000 eu-north-1"},
		"--region eu-north-1,eu-west-1": {"ami-10000000 eu-north-1", "ami-00000000 eu-west-1"},
		"--region us-east-1 --region eu-west-1 --region eu-west-1": {"ami-00000000 eu-west-1", "ami-20000000 us-east-1"},
	} {
		_, out, _ := command(t, "", strings.Fields("ami list "+args)...)
		assert.ElementsMatch(t, want, rows(out), args)
	}
	_, out, _ = command(t, "", "ami", "list", "--all-regions", "--output", "json")
	assert.Contains(t, out, `"Region": "us-east-1"`)
	assert.Contains(t, out, `"Source": "ami-00000000"`)

	t.Setenv("AWS_REGION", "")
	_, out, _ = command(t, "", "ami", "list", "--region", "eu-north-1")
	assert.Equal(t, []string{"ami-10000000 eu-north-1"}, rows(out))
}

// A region that cannot be read is reported, and the others are shown.
func TestUnreadRegionsAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		hide func(*aws.World)
		want string
	}{
		"denied": {func(w *aws.World) { w.Deny("us-east-1") },
			"eksnode: in us-east-1: listing your images: the permission ec2:DescribeImages is missing"},
		"cut off": {func(w *aws.World) { w.CutRegion("us-east-1") }, "eksnode: in us-east-1: listing your images: "},
		"two": {func(w *aws.World) { w.Deny("us-east-1"); w.Deny("eu-north-1") },
			"eksnode: in eu-north-1, us-east-1: listing your images: the permission"},
	} {
		t.Run(name, func(t *testing.T) {
			w := regional(t)
			c.hide(w)
			out, errOut := exits(t, 2, "ami", "list", "--all-regions")
			assert.Contains(t, errOut, c.want)
			assert.Contains(t, rows(out), "ami-00000000 eu-west-1")
			assert.NotContains(t, out, "us-east-1 ")
		})
	}
	w := regional(t)
	w.Deny("ec2:DescribeRegions")
	_, errOut := exits(t, 2, "ami", "list", "--all-regions")
	assert.Contains(t, errOut, "eksnode: listing the regions: the permission ec2:DescribeRegions is missing")
	out := succeeds(t, "ami", "list", "--region", "eu-west-1,us-east-1")
	assert.Len(t, rows(out), 8)
}

func TestWrongRegionsAreRefused(t *testing.T) {
	w := regional(t)
	for args, want := range map[string]string{
		"list --region eu-wset-1":            "--region: the region eu-wset-1 does not exist; similar are eu-west-1, ",
		"list --region eu-north-1,us-west-9": "--region: the region us-west-9 does not exist; similar are ",
		"list --region ap-south-1":           "the region ap-south-1 is not enabled for this account; enable the region, or leave it out\n",
	} {
		_, errOut := exits(t, 2, strings.Fields("ami "+args)...)
		assert.Contains(t, errOut, want, args)
	}
	for action := range w.Count() {
		assert.Equal(t, "ec2:DescribeRegions", action)
	}
}

func TestAMIDiffFindsTheRegion(t *testing.T) {
	w := regional(t)
	for args, want := range map[string]string{
		"ami-00000000 eu-north-1:ami-10000000":                    "0 differences between ami-00000000 and eu-north-1:ami-10000000\n",
		"eu-west-1:ami-00000000 eu-north-1:ami-10000001":          "~ tag eksnode:kubernetes-version: 1.34.9 -> 1.34.8\n1 difference between ",
		"ami-10000000 ami-00000000 --all-regions":                 "0 differences between ami-10000000 and ami-00000000\n",
		"ami-10000000 ami-00000001 --region eu-west-1,eu-north-1": "1 difference between ",
	} {
		out := succeeds(t, strings.Fields("ami diff "+args)...)
		assert.Contains(t, out, want, args)
	}
	_, errOut := exits(t, 2, "ami", "diff", "ami-10000000", "ami-77777777", "--all-regions")
	assert.Equal(t, "eksnode: describing the image ami-77777777: the image is in none of the 3 regions that could be read\n", errOut)
	t.Setenv("AWS_REGION", "")
	succeeds(t, "ami", "diff", "eu-west-1:ami-00000000", "eu-north-1:ami-10000000")
	assert.Empty(t, w.Refusals())
}

func TestAMIPublishSetsTheParameterInAllRegions(t *testing.T) {
	const all = "/n in eu-north-1 is ami-10000001\n/n in eu-west-1 is ami-00000001\n/n in us-east-1 is ami-20000001\n"
	for name, c := range map[string]struct {
		change func(*aws.World)
		args   string
		code   int
		out    string
		want   string // error
	}{
		"one region":        {func(*aws.World) {}, "ami-00000001", 0, "/n in eu-west-1 is ami-00000001\n", ""},
		"all regions":       {func(*aws.World) {}, "ami-00000001 --all-regions", 0, all, ""},
		"from a copy":       {func(*aws.World) {}, "ami-20000001 --all-regions", 0, all, ""},
		"named regions":     {func(*aws.World) {}, "us-east-1:ami-20000001 --region eu-west-1,eu-north-1", 0, strings.Join(strings.SplitAfter(all, "\n")[:2], ""), ""},
		"another region":    {func(*aws.World) {}, "us-east-1:ami-20000001", 0, "/n in us-east-1 is ami-20000001\n", ""},
		"the copy's region": {func(*aws.World) {}, "eu-west-1:ami-00000001 --region us-east-1", 0, "/n in us-east-1 is ami-20000001\n", ""},
		"without a source":  {func(w *aws.World) { w.Image("ami-10000001").Source = "" }, "ami-00000001 --region eu-west-1,eu-north-1", 0, strings.Join(strings.SplitAfter(all, "\n")[:2], ""), ""},
		"a source that is gone": {func(w *aws.World) { // Packer copies an encrypted image from one that it deletes
			w.Image("ami-00000001").Source, w.Image("ami-00000001").SourceInstance = "ami-88888888", ""
			w.Image("ami-10000001").Source, w.Image("ami-20000001").Source = "ami-88888888", "ami-88888888"
		}, "ami-00000001 --all-regions", 0, all, ""},
		"no copy": {func(w *aws.World) { w.Image("ami-20000001").Source = "ami-20000002" }, "ami-00000001 --all-regions", 0, strings.Join(strings.SplitAfter(all, "\n")[:2], ""), ""},
		"no copy in a named region": {func(w *aws.World) { w.Image("ami-20000001").Source = "" }, "ami-00000001 --region eu-west-1,us-east-1", 2, "",
			"us-east-1 has no copy of ami-00000001; copy the AMI to the region, or leave the region out"},
		"two copies": {func(w *aws.World) { w.Copy("ami-00000001", "us-east-1", "ami-30000001", false) }, "ami-00000001 --all-regions", 2, "",
			"us-east-1 has several copies of ami-00000001, such as ami-20000001 and ami-30000001; publish one of them by its ID"},
		"a pending copy": {func(w *aws.World) { w.Image("ami-20000001").State = "pending" }, "ami-00000001 --all-regions", 2, "",
			"in us-east-1: publishing the image ami-20000001: the image is pending"},
		"a derived image": {func(w *aws.World) { // made from an instance of the first image
			w.Image("ami-20000001").SourceInstance = "i-7"
		}, "ami-00000001 --region eu-west-1,us-east-1", 2, "", "us-east-1 has no copy of ami-00000001"},
		"an unread region": {func(w *aws.World) { w.Deny("us-east-1") }, "eu-west-1:ami-00000001 --all-regions", 2,
			strings.Join(strings.SplitAfter(all, "\n")[:2], ""),
			"in us-east-1: listing the images of the account " + aws.Account + ": the permission ec2:DescribeImages is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := regional(t)
			c.change(w)
			code, out, errOut := command(t, "", strings.Fields("ami publish --parameter /n "+c.args)...)
			assert.Equal(t, c.code, code, errOut)
			assert.Equal(t, c.out, out)
			assert.Contains(t, errOut, c.want)
			w.Heal()
			for line := range strings.Lines(c.out) {
				fields := strings.Fields(line)
				assert.Equal(t, fields[4], w.Parameter(fields[2], "/n").Value)
			}
			assert.Equal(t, strings.Count(c.out, "\n"), w.Count()["ssm:PutParameter"])
		})
	}
	regional(t)
	const west, north = `{"parameter":"/n","region":"eu-west-1","image":"ami-00000001"}`,
		`{"parameter":"/n","region":"eu-north-1","image":"ami-10000001"}`
	both := "[" + north + "," + west + "]"
	for regions, want := range map[string]string{"": west, "--region eu-west-1,eu-north-1": both} {
		args := "ami publish ami-00000001 --parameter /n --output json " + regions
		assert.JSONEq(t, want, succeeds(t, strings.Fields(args)...))
	}
}

// everywhere retires all builds but the newest two, in all regions.
const everywhere = "ami retire --all-regions --keep 2 --older-than 30 "

// changed returns the actions and AMIs of the output of retire.
func changed(out string) []string {
	var all []string
	for line := range strings.Lines(out) {
		for _, action := range []string{"deprecate ", "deregister ", "keep "} {
			if strings.HasPrefix(line, action) {
				all = append(all, strings.Join(strings.Fields(line)[:2], " "))
			}
		}
	}
	return all
}

func TestAMIRetireWorksInAllRegions(t *testing.T) {
	w := regional(t)
	out := succeeds(t, strings.Fields(everywhere)...)
	assert.ElementsMatch(t, []string{
		"deprecate ami-00000002", "deprecate ami-10000002", "deprecate ami-20000002", "deprecate ami-00000003", "deprecate ami-10000003", "deprecate ami-20000003",
	}, changed(out))
	assert.Contains(t, out, "deprecate ami-10000002 in eu-north-1 (debian-2, made ")
	assert.Contains(t, out, "\n6 of 12 images would be retired; --yes makes the changes\n")
	_, out, _ = command(t, "", strings.Fields(everywhere+"--output json")...)
	assert.Contains(t, out, `"region": "us-east-1"`)

	_, out, _ = command(t, "", strings.Fields(everywhere+"--yes")...)
	assert.Contains(t, out, "\n6 of 12 images retired\n")
	assert.NotEmpty(t, w.Image("ami-20000003").Deprecated)
	assert.Empty(t, w.Image("ami-20000001").Deprecated)

	out = succeeds(t, strings.Fields(everywhere+"--deregister --yes")...)
	assert.Len(t, changed(out), 6)
	assert.NotContains(t, out, "other regions")
	assert.Nil(t, w.Image("ami-20000002"))
	assert.NotNil(t, w.Image("ami-20000001"))
	assert.ElementsMatch(t, []string{"snap-0", "snap-10000000", "snap-20000000", "snap-1", "snap-10000001", "snap-20000001"}, w.SnapshotIDs())
}

// An AMI in use keeps its copies in all regions.
func TestBuildsInUseAreKeptInAllRegions(t *testing.T) {
	for name, c := range map[string]struct {
		use  func(*aws.World)
		want string // users of ami-10000003
	}{
		"an instance":                   {func(w *aws.World) { w.Region = "eu-north-1"; w.Launch("i-1", "ami-10000003") }, "the instance i-1 running"},
		"a parameter of another region": {func(w *aws.World) { w.Put("/map", `{"eu-north-1":"ami-10000003"}`) }, "the SSM parameter /map in eu-west-1"},
		"another account":               {func(w *aws.World) { w.Image("ami-10000003").Shares = []aws.Share{{Account: "111111111111"}} }, "a launch permission for the account 111111111111"},
		"a recent launch": {func(w *aws.World) {
			w.Image("ami-10000003").Launched = time.Now().AddDate(0, 0, -29).UTC().Format(time.RFC3339)
		},
			"an instance that was launched on " + time.Now().AddDate(0, 0, -29).UTC().Format(time.DateOnly) + " in this or another account"},
		"an early launch":     {func(w *aws.World) { w.Image("ami-10000003").Launched = "2020-01-01T00:00:00Z" }, ""},
		"protection":          {func(w *aws.World) { w.Image("ami-10000003").Protection = "enabled-with-cooldown" }, "its deregistration protection (enabled-with-cooldown)"},
		"disabled protection": {func(w *aws.World) { w.Image("ami-10000003").Protection = "disabled" }, ""},
		"a derived build": {func(w *aws.World) { // used as base of another image
			i := w.Copy("ami-00000000", "eu-north-1", "ami-55555555", true)
			i.Name, i.SourceInstance, i.Source, i.SourceRegion = "derived", "i-9", "ami-10000003", "eu-north-1"
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := regional(t)
			c.use(w)
			out := succeeds(t, strings.Fields(everywhere+"--deregister --yes")...)
			for _, id := range []string{"ami-00000003", "ami-10000003", "ami-20000003"} {
				assert.Equal(t, c.want == "", w.Image(id) == nil, id)
			}
			assert.Nil(t, w.Image("ami-10000002"), "the other build is unused")
			if c.want != "" {
				assert.Contains(t, out, "keep ami-10000003 in eu-north-1 (debian-3, made ")
				assert.Contains(t, out, "); used by: "+c.want+"\n")
				assert.Contains(t, out, "); used by: the same build, which is in use as ami-10000003 in eu-north-1\n")
			}
		})
	}
}

// A copy may be much newer than its build. A recent copy keeps the build.
func TestCopiesCountAsTheirBuild(t *testing.T) {
	w := regional(t)
	w.Image("ami-10000003").Created = time.Now().AddDate(0, 0, -32).UTC().Format(time.RFC3339)
	_, out, _ := command(t, "", strings.Fields(everywhere)...)
	assert.Contains(t, changed(out), "deprecate ami-10000003", "the oldest build")
	assert.NotContains(t, changed(out), "deprecate ami-10000001", "the second newest build")
	w.Image("ami-10000003").Created = time.Now().UTC().Format(time.RFC3339)
	_, out, _ = command(t, "", strings.Fields(everywhere)...)
	assert.NotContains(t, out, "ami-00000003")
}

// A region that cannot be read may use any AMI. Deprecating needs no users.
func TestUnreadRegionsKeepAllImages(t *testing.T) {
	for name, hide := range map[string]func(*aws.World){
		"denied":  func(w *aws.World) { w.Deny("us-east-1") },
		"cut off": func(w *aws.World) { w.CutRegion("us-east-1") },
	} {
		t.Run(name, func(t *testing.T) {
			w := regional(t)
			hide(w)
			out, errOut := exits(t, 2, strings.Fields(everywhere+"--deregister --yes")...)
			assert.Contains(t, errOut, "eksnode: in us-east-1: listing your images: ")
			assert.Contains(t, errOut, "all AMIs count as used while a region cannot be read; to leave it out, use --region eu-north-1,eu-west-1\n")
			assert.Contains(t, out, "; used by: unknown, because a list could not be read\n")
			assert.Len(t, w.Images, 13)

			out, _ = exits(t, 2, strings.Fields(everywhere+"--yes")...)
			assert.Contains(t, out, "\n4 of 8 images retired\n")
			out = succeeds(t, strings.Fields("ami retire --region eu-north-1,eu-west-1 --keep 2 --older-than 30 --deregister --yes")...)
			assert.Contains(t, out, "\n4 of 8 images retired\n")
		})
	}
}

// A change that fails stops no other, and the exit code is 1.
func TestFailedChangesAreReported(t *testing.T) {
	w := regional(t)
	w.Fail("ec2:DeleteSnapshot", 2, "OperationNotPermitted", 400) // with the AMI, and alone
	w.Fail("ec2:DeregisterImage", 1, "InternalError", 400)
	out, errOut := exits(t, 1, strings.Fields(everywhere+"--deregister --yes")...)
	assert.Contains(t, errOut, "deregistering the image ami-")
	assert.Regexp(t, `deleting the snapshot snap-\d+ of ami-\d+: OperationNotPermitted: as the test wants it`, errOut)
	assert.Contains(t, out, "; used by: unknown, because the snapshot could not be deleted\n")
	assert.Contains(t, out, "\n5 of 12 images retired\n")
	assert.Len(t, w.Images, 8)
	assert.Len(t, w.SnapshotIDs(), 8)

	w = regional(t)
	w.Fail("ec2:EnableImageDeprecation", 1, "InternalError", 400)
	out, errOut = exits(t, 1, strings.Fields(everywhere+"--yes")...)
	assert.Contains(t, errOut, "deprecating the image ami-")
	assert.Contains(t, out, "\n5 of 12 images retired\n")
}
