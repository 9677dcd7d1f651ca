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
	code, out, errOut := command(t, "", strings.Fields(args)...)
	require.Equal(t, 0, code, errOut)
	undo := "to undo, with the same credentials:\n  eksnode ami publish eu-west-1:ami-00000001 --parameter /n/stable\n"
	assert.Equal(t, west+undo, out)
	assert.Equal(t, "ami-00000000", w.Parameter(aws.Region, "/n/stable").Value)
	assert.Equal(t, "ami-10000001", w.Parameter("eu-north-1", "/n/stable").Value)

	code, out, errOut = command(t, "", strings.Fields(args+" --all-regions")...)
	require.Equal(t, 0, code, errOut)
	undo = "to undo, with the same credentials:\n  eksnode ami publish eu-north-1:ami-10000001 --parameter /n/stable\n"
	assert.Equal(t, north+"/n/stable in eu-west-1 is already ami-00000000\n"+undo, out)
	assert.Equal(t, "ami-10000000", w.Parameter("eu-north-1", "/n/stable").Value)
	code, out, errOut = command(t, "", strings.Fields(strings.TrimPrefix(strings.TrimSpace(strings.Split(undo, "\n")[1]), "eksnode "))...)
	require.Equal(t, 0, code, errOut)
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
	w.DenyRegion("us-east-1")
	code, out, errOut := command(t, "", strings.Fields("ami promote --from /n/candidate --to /n/stable --all-regions")...)
	assert.Equal(t, 2, code)
	assert.Contains(t, errOut, "eksnode: in us-east-1: reading the parameter /n/candidate: the permission ssm:GetParameter is missing")
	assert.Contains(t, out, "/n/stable in eu-north-1 is ami-10000000; it was ami-77777777\n/n/stable in eu-west-1 is ami-00000000; ")
}
