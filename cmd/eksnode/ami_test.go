//go:build linux && !agent

package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
)

// fleet is a world with five images of one kind, newest first, a month apart,
// and one of another kind.
func fleet(t *testing.T) *aws.World {
	t.Helper()
	w := aws.Sample()
	w.Images, w.Snapshots = nil, nil
	image := func(n int, distro string) {
		snapshot := fmt.Sprintf("snap-%d", n)
		w.Snapshots = append(w.Snapshots, snapshot)
		w.Images = append(w.Images, aws.Image{
			ID: fmt.Sprintf("ami-%08d", n), Name: fmt.Sprintf("%s-%d", distro, n), Owner: aws.Account, State: "available", Architecture: "x86_64",
			RootDevice: "/dev/xvda", RootType: "ebs", ENA: true, Created: time.Now().AddDate(0, 0, -30*n).UTC().Format(time.RFC3339),
			Devices: []aws.Drive{{Name: "/dev/xvda", Snapshot: snapshot}},
			Tags:    []aws.Tag{{Key: "eksnode:distro", Value: distro}, {Key: "eksnode:kubernetes-version", Value: fmt.Sprintf("1.34.%d", 9-n)}},
		})
	}
	for n := range 5 {
		image(n, "debian")
	}
	image(9, "arch")
	w.Images = append(w.Images, aws.Image{ID: "ami-99999999", Name: "other", Owner: aws.Account, State: "available"})
	w.PageSize = 2
	w.Serve(t)
	return w
}

func TestAMIList(t *testing.T) {
	fleet(t)
	code, out, errOut := command(t, "", "ami", "list")
	require.Equal(t, 0, code, errOut)
	assert.Contains(t, out, "x86_64     available  distro=debian kubernetes-version=1.34.9\n")
	assert.NotContains(t, out, "ami-99999999", "it is not one of ours")
	_, out, _ = command(t, "", "ami", "list", "--output", "json")
	assert.Contains(t, out, `"ID": "ami-00000009"`)
}

func TestAMICompare(t *testing.T) {
	w := fleet(t)
	w.Images[1].Tags = append(w.Images[1].Tags, aws.Tag{Key: "Name", Value: "x"})
	_, out, _ := command(t, "", "ami", "diff", "ami-00000000", "ami-00000001")
	assert.Equal(t, "+ tag Name: x\n~ tag eksnode:kubernetes-version: 1.34.9 -> 1.34.8\n2 differences between ami-00000000 and ami-00000001\n", out)

	one, two := t.TempDir()+"/one.json", t.TempDir()+"/two.json"
	require.NoError(t, os.WriteFile(one, []byte(`{"schema":"eksnode.image/v1","kubernetes_version":"1.34.3","packages":[{"name":"runc","version":"1"}],"units":[{"name":"a","enabled":true}]}`), 0o600))
	require.NoError(t, os.WriteFile(two, []byte(`{"schema":"eksnode.image/v1","kubernetes_version":"1.34.4","assets":[{"id":"kubelet","version":"1.34.4","sha256":"ab"}],"units":[{"name":"a","enabled":false}]}`), 0o600))
	_, out, _ = command(t, "", "ami", "diff", one, two)
	assert.Equal(t, "+ asset kubelet: 1.34.4 ab\n~ kubernetes: 1.34.3 -> 1.34.4\n- package runc: 1\n~ unit a: starts at boot -> is started by the first boot\n4 differences between "+one+" and "+two+"\n", out)

	_, out, _ = command(t, "", "ami", "diff", one, two, "--output", "json")
	assert.JSONEq(t, `[{"fact": "asset kubelet", "before": null, "after": "1.34.4 ab"}, {"fact": "kubernetes", "before": "1.34.3", "after": "1.34.4"},
		{"fact": "package runc", "before": "1", "after": null}, {"fact": "unit a", "before": "starts at boot", "after": "is started by the first boot"}]`, out)

	require.NoError(t, os.WriteFile(one, []byte(`{"schema":"x"}`), 0o600))
	_, _, errOut := command(t, "", "ami", "diff", one, two)
	assert.Contains(t, errOut, `its schema is "x", not eksnode.image/v1`)
	_, _, errOut = command(t, "", "ami", "diff", one)
	assert.Equal(t, "eksnode: name two images or two manifests; eksnode ami diff --help shows how\n", errOut)
}

func TestAMIRetire(t *testing.T) {
	w := fleet(t)
	_, out, _ := command(t, "", "ami", "retire", "--keep", "2", "--older-than", "85")
	assert.Contains(t, out, "deprecate ami-00000003 (debian-3, made ")
	_, list, _ := command(t, "", "ami", "retire", "--keep", "2", "--older-than", "85", "--output", "json")
	assert.Contains(t, list, `"action": "deprecate",`)
	assert.Contains(t, list, `"image": "ami-00000003",`)
	assert.Contains(t, list, `"done": false,`)
	assert.Contains(t, out, "\n2 of 6 images would be retired; --yes does it\n")
	assert.Empty(t, w.Calls()["ec2:EnableImageDeprecation"], "nothing was done")

	_, out, _ = command(t, "", "ami", "retire", "--keep", "2", "--older-than", "85", "--yes")
	assert.Contains(t, out, "\n2 of 6 images retired\n")
	assert.NotEmpty(t, w.Images[3].Deprecated)
	assert.Empty(t, w.Images[5].Deprecated, "the only one of its kind stays, however old")
	_, out, _ = command(t, "", "ami", "retire", "--keep", "2", "--older-than", "85", "--yes")
	assert.Equal(t, "0 of 6 images retired\n", out, "a second time there is nothing to do")

	// Builds set a date that is far away; that is not retired.
	w.Images[2].Deprecated = time.Now().AddDate(0, 6, 0).UTC().Format(time.RFC3339)
	_, out, _ = command(t, "", "ami", "retire", "--keep", "1", "--older-than", "45")
	assert.Contains(t, out, "deprecate ami-00000002 ")
	_, out, _ = command(t, "", "ami", "list")
	assert.Contains(t, out, "available until ")

	// An image that could not be made takes no place of those that stay.
	w.Images[0].State = "failed"
	_, out, _ = command(t, "", "ami", "retire", "--keep", "3", "--older-than", "0", "--deregister")
	assert.NotContains(t, out, "ami-00000000")
	assert.NotContains(t, out, "ami-00000003")
	w.Images[0].State = "available"

	w.Images[2].Deprecated = ""
	_, out, _ = command(t, "", "ami", "retire", "--keep", "2", "--older-than", "85", "--deregister")
	assert.Equal(t, notSeen+"deregister "+made(w, 3)+"\nderegister "+made(w, 4)+"\n2 of 6 images would be retired; --yes does it\n", out)
	assert.Empty(t, w.Calls()["ec2:DeregisterImage"])
	code, out, errOut := command(t, "", "ami", "retire", "--keep", "2", "--older-than", "115", "--deregister", "--yes")
	require.Equal(t, 0, code, errOut)
	assert.Contains(t, out, "deregister ami-00000004 (debian-4, made ")
	assert.Equal(t, []string{"snap-0", "snap-1", "snap-2", "snap-3", "snap-9"}, w.Snapshots)
	assert.Len(t, w.Images, 6)

	w.Deny("ec2:DescribeImages")
	code, _, errOut = command(t, "", "ami", "retire", "--yes")
	assert.Equal(t, 2, code)
	assert.Contains(t, errOut, "the permission ec2:DescribeImages is missing")
	_, _, errOut = command(t, "", "ami", "retire", "--keep", "0")
	assert.Equal(t, "eksnode: --keep must be at least 1, and --older-than at least 0\n", errOut)
}

func TestAMIPublish(t *testing.T) {
	w := fleet(t)
	_, out, _ := command(t, "", "ami", "publish", "ami-00000000", "--parameter", "/a/b")
	assert.Equal(t, "/a/b in eu-west-1 is ami-00000000\n", out)
	assert.Equal(t, "ami-00000000", w.Parameters["/a/b"])
	_, out, _ = command(t, "", "ami", "publish", "ami-00000000", "--parameter", "/a/b", "--output", "json")
	assert.JSONEq(t, `{"parameter": "/a/b", "region": "eu-west-1", "image": "ami-00000000"}`, out)
	_, _, errOut := command(t, "", "ami", "publish", "ami-00000000")
	assert.Equal(t, "eksnode: --parameter: name the SSM parameter that the image's id is put into\n", errOut)
}
