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
	code, out, errOut := command(t, "", strings.Fields(everywhere)...)
	require.Equal(t, 0, code, errOut)
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

	code, out, errOut = command(t, "", strings.Fields(everywhere+"--deregister --yes")...)
	require.Equal(t, 0, code, errOut)
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
			code, out, errOut := command(t, "", strings.Fields(everywhere+"--deregister --yes")...)
			require.Equal(t, 0, code, errOut)
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
		"denied":  func(w *aws.World) { w.DenyRegion("us-east-1") },
		"cut off": func(w *aws.World) { w.CutRegion("us-east-1") },
	} {
		t.Run(name, func(t *testing.T) {
			w := regional(t)
			hide(w)
			code, out, errOut := command(t, "", strings.Fields(everywhere+"--deregister --yes")...)
			assert.Equal(t, 2, code)
			assert.Contains(t, errOut, "eksnode: in us-east-1: listing your images: ")
			assert.Contains(t, errOut, "all AMIs count as used while a region cannot be read; to leave it out, use --region eu-north-1,eu-west-1\n")
			assert.Contains(t, out, "; used by: unknown, because a list could not be read\n")
			assert.Len(t, w.Images, 13)

			code, out, _ = command(t, "", strings.Fields(everywhere+"--yes")...)
			assert.Equal(t, 2, code)
			assert.Contains(t, out, "\n4 of 8 images retired\n")
			code, out, errOut = command(t, "", strings.Fields("ami retire --region eu-north-1,eu-west-1 --keep 2 --older-than 30 --deregister --yes")...)
			assert.Equal(t, 0, code, errOut)
			assert.Contains(t, out, "\n4 of 8 images retired\n")
		})
	}
}

// A change that fails stops no other, and the exit code is 1.
func TestFailedChangesAreReported(t *testing.T) {
	w := regional(t)
	w.Fail("ec2:DeleteSnapshot", 2, "OperationNotPermitted", 400) // with the AMI, and alone
	w.Fail("ec2:DeregisterImage", 1, "InternalError", 400)
	code, out, errOut := command(t, "", strings.Fields(everywhere+"--deregister --yes")...)
	assert.Equal(t, 1, code, errOut)
	assert.Contains(t, errOut, "deregistering the image ami-")
	assert.Contains(t, errOut, "deleting the snapshot snap-")
	assert.Contains(t, out, "; used by: unknown, because the snapshot could not be deleted\n")
	assert.Contains(t, out, "\n5 of 12 images retired\n")
	assert.Len(t, w.Images, 8)
	assert.Len(t, w.SnapshotIDs(), 8)

	w = regional(t)
	w.Fail("ec2:EnableImageDeprecation", 1, "InternalError", 400)
	code, out, errOut = command(t, "", strings.Fields(everywhere+"--yes")...)
	assert.Equal(t, 1, code)
	assert.Contains(t, errOut, "deprecating the image ami-")
	assert.Contains(t, out, "\n5 of 12 images retired\n")
}
