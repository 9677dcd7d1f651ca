//go:build e2e && linux && !agent

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
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

func TestAMIListShowsOwnImages(t *testing.T) {
	fleet(t)
	code, out, errOut := command(t, "", "ami", "list")
	require.Equal(t, 0, code, errOut)
	assert.Contains(t, out, "x86_64     available  distro=debian kubernetes-version=1.34.9\n")
	assert.NotContains(t, out, "ami-99999999", "the image was not made by eksnode")
	_, out, _ = command(t, "", "ami", "list", "--output", "json")
	assert.Contains(t, out, `"ID": "ami-00000009"`)
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
		code, out, errOut := command(t, "", strings.Fields(args)...)
		assert.Equal(t, 0, code, out+errOut)
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
	code, out, errOut := command(t, "", "ami", "retire", "--keep", "2", "--older-than", "115", "--deregister", "--yes")
	require.Equal(t, 0, code, errOut)
	assert.Contains(t, out, "deregister ami-00000004 (debian-4, made ")
	assert.Equal(t, []string{"snap-0", "snap-1", "snap-2", "snap-3", "snap-9"}, w.SnapshotIDs())
	assert.Len(t, w.Images, 6)

	w.Deny("ec2:DescribeImages")
	code, _, errOut = command(t, "", "ami", "retire", "--yes")
	assert.Equal(t, 2, code)
	assert.Contains(t, errOut, "the permission ec2:DescribeImages is missing")
	_, _, errOut = command(t, "", "ami", "retire", "--keep", "0")
	assert.Equal(t, "eksnode: --keep must be at least 1, and --older-than at least 0\n", errOut)
}

func TestAMIPublishSetsTheParameter(t *testing.T) {
	w := fleet(t)
	_, out, _ := command(t, "", "ami", "publish", "ami-00000000", "--parameter", "/a/b")
	assert.Equal(t, "/a/b in eu-west-1 is ami-00000000\n", out)
	assert.Equal(t, "ami-00000000", w.Parameter(aws.Region, "/a/b").Value)
	_, out, _ = command(t, "", "ami", "publish", "ami-00000000", "--parameter", "/a/b", "--output", "json")
	assert.JSONEq(t, `{"parameter": "/a/b", "region": "eu-west-1", "image": "ami-00000000"}`, out)
	_, _, errOut := command(t, "", "ami", "publish", "ami-00000000")
	assert.Equal(t, "eksnode: --parameter is missing; name the SSM parameter for the AMI ID, such as /eksnode/debian/1.34/amd64\n", errOut)
}
