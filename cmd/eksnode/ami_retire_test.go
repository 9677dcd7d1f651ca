//go:build linux && !agent

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// notSeen is what is said before anything else where images are taken away.
const notSeen = unseenUsers + "\n"

// made is the image n of a fleet as it is printed.
func made(w *aws.World, n int) string {
	i := w.Images[n]
	return fmt.Sprintf("%s (%s, made %s)", i.ID, i.Name, i.Created[:10])
}

// third is an image of a fleet that is old enough to go.
const third = "ami-00000003"

// Whatever refers to an image keeps it, on whatever page it is, and is named.
func TestAnImageInUseIsKept(t *testing.T) {
	version := func(w *aws.World, n int, image string, isDefault bool) {
		w.Templates = append(w.Templates, aws.Template{ID: "lt-2", Name: "old", Version: n, Default: isDefault, Data: aws.TemplateData{Image: image}})
	}
	// Of three versions the first names the image, the second is the default.
	versions := func(w *aws.World) {
		version(w, 1, third, false)
		version(w, 2, "ami-00000000", true)
		version(w, 3, "ami-00000000", false)
	}
	first := aws.Specification{ID: "lt-2", Version: "1"}
	const pinned = "the launch template old, version 1 ("
	for name, c := range map[string]struct {
		use  func(*aws.World)
		want string // empty: it goes
	}{
		"nothing":                    {func(*aws.World) {}, ""},
		"a running instance":         {func(w *aws.World) { w.Instances[0] = aws.Instance{ID: "i-1", Image: third, State: "running"} }, "the instance i-1 running"},
		"a stopped instance":         {func(w *aws.World) { w.Instances[0] = aws.Instance{ID: "i-1", Image: third, State: "stopped"} }, "the instance i-1 stopped"},
		"a terminated instance":      {func(w *aws.World) { w.Instances[0] = aws.Instance{ID: "i-1", Image: third, State: "terminated"} }, ""},
		"a Spot request":             {func(w *aws.World) { w.SpotRequests = []aws.SpotRequest{{ID: "sir-1", State: "open", Image: third}} }, "the Spot request sir-1"},
		"an ended Spot request":      {func(w *aws.World) { w.SpotRequests = []aws.SpotRequest{{ID: "sir-1", State: "closed", Image: third}} }, ""},
		"a parameter":                {func(w *aws.World) { w.Parameters["/nodes"] = third }, "the SSM parameter /nodes"},
		"a parameter with a list":    {func(w *aws.World) { w.Parameters["nodes"] = "ami-00000000," + third }, "the SSM parameter nodes"},
		"a parameter with JSON":      {func(w *aws.World) { w.Parameters["/n"] = `{"eu-west-1":"` + third + `"}` }, "the SSM parameter /n"},
		"a longer id":                {func(w *aws.World) { w.Parameters["/n"] = third + "00" }, ""},
		"a secret":                   {func(w *aws.World) { w.Parameters["/n"], w.Secrets = third, map[string]bool{"/n": true} }, ""},
		"a labelled version":         {func(w *aws.World) { w.Parameters["/n"], w.History = "ami-00000000", history("stable") }, "the SSM parameter /n, version 1 with the label stable"},
		"an earlier version":         {func(w *aws.World) { w.Parameters["/n"], w.History = "ami-00000000", history() }, ""},
		"the latest version":         {func(w *aws.World) { version(w, 1, "ami-00000000", true); version(w, 2, third, false) }, "the launch template old, version 2 ($Latest)"},
		"the default version":        {func(w *aws.World) { version(w, 1, third, true); version(w, 2, "ami-00000000", false) }, pinned + "$Default)"},
		"a version that nobody uses": {versions, ""},
		"a template's parameter": {func(w *aws.World) {
			w.Parameters["/aws/service/x"] = third // of another account
			version(w, 1, "resolve:ssm:/aws/service/x", true)
		}, pinned + "$Default, $Latest)"},
		"a template's version of a parameter": {func(w *aws.World) {
			w.Parameters["/aws/service/x:7"] = third
			version(w, 1, "resolve:ssm:/aws/service/x:7", true)
		}, pinned + "$Default, $Latest)"},
		"a parameter that is gone": {func(w *aws.World) { version(w, 1, "resolve:ssm:/gone", true) }, ""},
		"a group":                  {func(w *aws.World) { versions(w); w.ScalingGroups = []aws.ScalingGroup{{Name: "g", Template: &first}} }, pinned + "the Auto Scaling group g)"},
		"a group by name": {func(w *aws.World) {
			versions(w)
			w.ScalingGroups = []aws.ScalingGroup{{Name: "g", Template: &aws.Specification{Name: "old", Version: "1"}}}
		}, pinned + "the Auto Scaling group g)"},
		"a group without a version": {func(w *aws.World) {
			version(w, 1, third, true)
			w.ScalingGroups = []aws.ScalingGroup{{Name: "g", Template: &aws.Specification{ID: "lt-2"}}}
		}, pinned + "$Default, $Latest, the Auto Scaling group g)"},
		"a mixed group":       {func(w *aws.World) { versions(w); w.ScalingGroups = []aws.ScalingGroup{{Name: "g", Mixed: &first}} }, pinned + "the Auto Scaling group g)"},
		"an override":         {func(w *aws.World) { versions(w); w.ScalingGroups = mixed(aws.Override{Template: &first}) }, pinned + "the Auto Scaling group g)"},
		"an override's image": {func(w *aws.World) { w.ScalingGroups = mixed(aws.Override{Image: third}) }, "the Auto Scaling group g"},
		"a version that is gone": {func(w *aws.World) {
			versions(w)
			w.ScalingGroups = []aws.ScalingGroup{{Name: "g", Template: &aws.Specification{ID: "lt-2", Version: "9"}}}
		}, ""},
		"a launch configuration": {func(w *aws.World) {
			w.Configurations = []aws.Configuration{{Name: "x", Image: "ami-00000000"}, {Name: "y", Image: "z"}, {Name: "c", Image: third}}
		}, "the launch configuration c"},
		"a node group": {func(w *aws.World) {
			versions(w)
			w.NodeGroups = map[string]map[string]aws.Specification{"my-cluster": {"a": {}, "b": {}, "n": first}}
		}, pinned + "the node group n of the cluster my-cluster)"},
		"a fleet":         {func(w *aws.World) { versions(w); w.Fleets = []aws.Fleet{fleetOf("active", first.ID, "")} }, pinned + "the EC2 Fleet fleet-1)"},
		"a fleet's image": {func(w *aws.World) { versions(w); w.Fleets = []aws.Fleet{fleetOf("active", "", third)} }, "the EC2 Fleet fleet-1"},
		"a deleted fleet": {func(w *aws.World) { versions(w); w.Fleets = []aws.Fleet{fleetOf("deleted_running", first.ID, third)} }, ""},
		"a Spot Fleet": {func(w *aws.World) {
			w.SpotFleets = []aws.SpotFleet{{ID: "sfr-1", State: "active", Images: []string{third}}}
		}, "the Spot Fleet sfr-1"},
		"a Spot Fleet's template": {func(w *aws.World) {
			versions(w)
			w.SpotFleets = []aws.SpotFleet{{ID: "sfr-1", State: "active", Configs: []aws.FleetConfig{{ID: "lt-2", Version: "1"}}}}
		}, pinned + "the Spot Fleet sfr-1)"},
		"a cancelled Spot Fleet": {func(w *aws.World) {
			w.SpotFleets = []aws.SpotFleet{{ID: "sfr-1", State: "cancelled", Images: []string{third}}}
		}, ""},
		"another account":        {share(aws.Share{Account: "111111111111"}), "a launch permission for the account 111111111111"},
		"its own account":        {share(aws.Share{Account: aws.Account}), ""},
		"everybody":              {share(aws.Share{Group: "all"}), "a launch permission for all"},
		"an organization":        {share(aws.Share{Organization: "arn:aws:organizations::1:organization/o-1"}), "a launch permission for arn:aws:organizations::1:organization/o-1"},
		"an organization's unit": {share(aws.Share{Unit: "arn:aws:organizations::1:ou/o-1/ou-1"}), "a launch permission for arn:aws:organizations::1:ou/o-1/ou-1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fleet(t)
			w.PageSize = 1
			c.use(w)
			for _, yes := range []string{"", "--yes"} {
				code, out, errOut := command(t, "", strings.Fields("ami retire --deregister --keep 1 --older-than 1 "+yes)...)
				require.Equal(t, 0, code, errOut)
				assert.True(t, strings.HasPrefix(out, notSeen), out)
				if c.want == "" {
					assert.Contains(t, out, "deregister "+third)
					continue
				}
				assert.Contains(t, out, "keep "+third+" (debian-3, made ")
				assert.Contains(t, out, "); used by: "+c.want+"\n")
			}
			gone := !slices.ContainsFunc(w.Images, func(i aws.Image) bool { return i.ID == third })
			assert.Equal(t, c.want == "", gone)
			assert.Equal(t, c.want == "", !slices.Contains(w.Snapshots, "snap-3"))
			assert.NotContains(t, w.Snapshots, "snap-2", "the others go")
		})
	}
}

// history is a parameter's versions, the first with labels.
func history(labels ...string) map[string][]aws.Version {
	return map[string][]aws.Version{"/n": {{Name: "/n", Value: third, Version: 1, Labels: labels}, {Name: "/n", Value: "ami-00000000", Version: 2}}}
}

func mixed(overrides ...aws.Override) []aws.ScalingGroup {
	return []aws.ScalingGroup{{Name: "g", Mixed: &aws.Specification{ID: "lt-1", Version: "$Latest"}, Overrides: append([]aws.Override{{}}, overrides...)}}
}

func fleetOf(state, template, image string) aws.Fleet {
	return aws.Fleet{ID: "fleet-1", State: state, Configs: []aws.FleetConfig{{ID: template, Version: "1", Images: []string{image}}}}
}

func share(with aws.Share) func(*aws.World) {
	return func(w *aws.World) { w.Shares = map[string][]aws.Share{third: {with}} }
}

// What cannot be looked at may hold a reference: nothing goes, and what could not
// be seen is named.
func TestWhatCannotBeSeenKeepsImages(t *testing.T) {
	for _, action := range awsapi.ImageActions() {
		service, verb, _ := strings.Cut(action, ":")
		if service+verb == "ec2DescribeImages" || !strings.HasPrefix(verb, "Describe") && !strings.HasPrefix(verb, "List") && !strings.HasPrefix(verb, "Get") {
			continue
		}
		for name, c := range map[string]struct {
			hide func(*aws.World)
			want string
		}{
			"denied":  {func(w *aws.World) { w.Deny(action) }, "the permission " + action + " is missing"},
			"cut off": {func(w *aws.World) { w.Break(action) }, "eksnode: "},
			"failing": {func(w *aws.World) { w.Fail(action, 99, "InternalFailure", 400) }, "InternalFailure: as the test wants it"},
		} {
			t.Run(action+"/"+name, func(t *testing.T) {
				w := fleet(t)
				w.Parameters["/n"] = "ami-00000000"
				w.Templates[0].Data.Image = "resolve:ssm:/n"
				w.NodeGroups = map[string]map[string]aws.Specification{"my-cluster": {"n": {}}}
				c.hide(w)
				code, out, errOut := command(t, "", "ami", "retire", "--deregister", "--keep", "1", "--older-than", "1", "--yes")
				assert.Equal(t, 2, code)
				assert.Contains(t, errOut, c.want)
				assert.Contains(t, out, "keep "+third+" (debian-3, made ")
				assert.Contains(t, out, "; used by: unknown, as something could not be seen\n")
				assert.Len(t, w.Images, 7)
				assert.Empty(t, w.Calls()["ec2:DeregisterImage"])
			})
		}
	}
}

// Somebody who comes between the look and the deed keeps all images.
func TestNothingGoesThatChangedMeanwhile(t *testing.T) {
	w := fleet(t)
	lists := 0
	w.Before("eks:ListClusters", func() {
		if lists++; lists == 1 { // the instances were listed before
			w.Instances = append(w.Instances, aws.Instance{ID: "i-9", Image: third, State: "pending"})
		}
	})
	code, out, errOut := command(t, "", "ami", "retire", "--deregister", "--keep", "1", "--older-than", "1", "--yes")
	assert.Equal(t, 2, code, out)
	assert.Equal(t, "eksnode: images, or what refers to them, changed while this looked: nothing was taken away; run it again\n", errOut)
	assert.Len(t, w.Images, 7)
}

// A snapshot goes with the last image that has it, and stays where it is shared.
func TestSnapshotsOfOthersStay(t *testing.T) {
	w := fleet(t)
	w.Images[3].Devices = append(w.Images[3].Devices, aws.Drive{Name: "/dev/xvdb", Snapshot: "snap-4"})
	w.Images[2].Devices = append(w.Images[2].Devices, aws.Drive{Name: "/dev/xvdb", Snapshot: "snap-0"})
	w.Shares = map[string][]aws.Share{"snap-1": {{Account: "111111111111"}}, "snap-2": {{Account: aws.Account}}}
	want := "keep the snapshot snap-1 of ami-00000001; used by: a permission for the account 111111111111\n"
	for _, yes := range []string{"", "--yes"} {
		code, out, errOut := command(t, "", strings.Fields("ami retire --deregister --keep 1 --older-than 1 "+yes)...)
		require.Equal(t, 0, code, errOut)
		assert.Contains(t, out, want)
		assert.Contains(t, out, "keep the snapshot snap-0 of ami-00000002; used by: ami-00000000\n")
		assert.Contains(t, out, "keep the snapshot snap-4 of ami-00000003; used by: ami-00000004\n")
	}
	assert.Equal(t, []string{"snap-0", "snap-1", "snap-9"}, w.Snapshots)
}

// Nobody knows how old an image without a date is.
func TestAnImageWithoutADateStays(t *testing.T) {
	w := fleet(t)
	w.Images[3].Created = "yesterday"
	_, out, _ := command(t, "", "ami", "retire", "--deregister", "--keep", "1", "--older-than", "1")
	assert.NotContains(t, out, third)
}

// The policy is exactly what the command calls.
func TestTheImagePolicyIsWhatIsCalled(t *testing.T) {
	w := fleet(t)
	w.Parameters["/n"] = "ami-00000000"
	w.Templates[0].Data.Image = "resolve:ssm:/n"
	w.NodeGroups = map[string]map[string]aws.Specification{"my-cluster": {"n": {}}}
	for _, args := range []string{"publish ami-00000000 --parameter /n", "retire --older-than 1 --yes", "retire --deregister --keep 1 --older-than 1 --yes"} {
		code, _, errOut := command(t, "", strings.Fields("ami "+args)...)
		require.Equal(t, 0, code, errOut)
	}
	assert.Equal(t, awsapi.ImageActions(), slices.Sorted(maps.Keys(w.Calls())))
	for _, action := range awsapi.ImageActions() {
		assert.True(t, cli.Operation(action), action)
	}
	code, out, _ := command(t, "", "ami", "--policy")
	assert.Equal(t, 0, code)
	assert.Contains(t, out, `"ssm:GetParameterHistory",`)
}
