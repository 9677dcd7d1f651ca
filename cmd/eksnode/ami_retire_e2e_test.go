//go:build e2e && linux && !agent

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// notSeen is the first line of output with --deregister.
const notSeen = unseenUsers + "\n"

// made returns an image of a fleet as the command prints the image.
func made(w *aws.World, name string) string {
	i := w.Image(name)
	return fmt.Sprintf("%s (%s, made %s)", i.ID, i.Name, i.Created[:10])
}

// third is an image of a fleet that is old enough to be retired.
const third = "ami-00000003"

// newest is the newest image of a fleet.
const newest = "ami-00000000"

// An image with a user is kept, and the output names the user. Users are found on
// every page of every list.
func TestImagesInUseAreKept(t *testing.T) {
	// The second of three versions names the image. The first is the default.
	versions := func(w *aws.World) { w.Template("lt-2", "old", newest, third, newest) }
	const pinned = "the launch template old, version 2 ("
	of := func(path, by, name string) []string {
		return []string{path + ".LaunchTemplate" + by, name, path + ".Version", "2"}
	}
	for name, c := range map[string]struct {
		use  func(*aws.World)
		want string // the user; empty if the image is deregistered
	}{
		"nothing":            {func(*aws.World) {}, ""},
		"a running instance": {func(w *aws.World) { w.Launch("i-1", third) }, "the instance i-1 running"},
		"a stopped instance": {func(w *aws.World) { w.Launch("i-1", third); w.Do("ec2:StopInstances", "InstanceId.1", "i-1") }, "the instance i-1 stopped"},
		"a terminated instance": {func(w *aws.World) {
			w.Launch("i-1", third)
			w.Do("ec2:TerminateInstances", "InstanceId.1", "i-1")
		}, ""},
		"a Spot request": {func(w *aws.World) {
			w.Name("sir-1", w.Do("ec2:RequestSpotInstances", "SpotPrice", "1", "LaunchSpecification.ImageId", third, "LaunchSpecification.InstanceType", "m6i.large"), `<spotInstanceRequestId>(.*?)<`)
			w.Name("i-1", w.Do("ec2:DescribeSpotInstanceRequests"), `<instanceId>(.*?)<`)
			w.Do("ec2:TerminateInstances", "InstanceId.1", "i-1")
		}, "the Spot request sir-1"},
		"an ended Spot request": {func(w *aws.World) {
			w.Answer("ec2:DescribeSpotInstanceRequests", `<R><spotInstanceRequestSet><item><spotInstanceRequestId>sir-1</spotInstanceRequestId><state>closed</state><launchSpecification><imageId>`+third+`</imageId></launchSpecification></item></spotInstanceRequestSet></R>`)
		}, ""},
		"a parameter":             {func(w *aws.World) { w.Put("/nodes", third) }, "the SSM parameter /nodes"},
		"a parameter with a list": {func(w *aws.World) { w.Put("nodes", newest+","+third) }, "the SSM parameter nodes"},
		"a parameter with JSON":   {func(w *aws.World) { w.Put("/n", `{"eu-west-1":"`+third+`"}`) }, "the SSM parameter /n"},
		"a longer id":             {func(w *aws.World) { w.Put("/n", third+"00") }, ""},
		"a secret": {func(w *aws.World) {
			w.Do("ssm:PutParameter", `{"Name":"/n","Value":"`+third+`","Type":"SecureString"}`)
		}, ""},
		"a labelled version": {func(w *aws.World) {
			w.Put("/n", third)
			w.Put("/n", newest)
			w.Do("ssm:LabelParameterVersion", `{"Name":"/n","ParameterVersion":1,"Labels":["stable"]}`)
		}, "the SSM parameter /n, version 1 with the label stable"},
		"an earlier version":  {func(w *aws.World) { w.Put("/n", third); w.Put("/n", newest) }, ""},
		"the latest version":  {func(w *aws.World) { w.Template("lt-2", "old", newest, third) }, "the launch template old, version 2 ($Latest)"},
		"the default version": {func(w *aws.World) { w.Template("lt-2", "old", third, newest) }, "the launch template old, version 1 ($Default)"},
		"an unused version":   {versions, ""},
		"a template's parameter": {func(w *aws.World) {
			w.Published["/aws/service/x"] = third // of another account
			w.Template("lt-2", "old", "resolve:ssm:/aws/service/x")
		}, "the launch template old, version 1 ($Default, $Latest)"},
		"a template's version of a parameter": {func(w *aws.World) {
			w.Put("/n", third)
			w.Put("/n", newest)
			w.Template("lt-2", "old", "resolve:ssm:/n:1")
		}, "the launch template old, version 1 ($Default, $Latest)"},
		"a missing parameter": {func(w *aws.World) { w.Template("lt-2", "old", "resolve:ssm:/gone") }, ""},
		"a group":             {func(w *aws.World) { versions(w); w.Group("g", of("LaunchTemplate", "Id", "lt-2")...) }, pinned + "the Auto Scaling group g)"},
		"a group by name":     {func(w *aws.World) { versions(w); w.Group("g", of("LaunchTemplate", "Name", "old")...) }, pinned + "the Auto Scaling group g)"},
		"a group without a version": {func(w *aws.World) {
			w.Template("lt-2", "old", third)
			w.Group("g", "LaunchTemplate.LaunchTemplateId", "lt-2")
		}, "the launch template old, version 1 ($Default, $Latest, the Auto Scaling group g)"},
		"a mixed group": {func(w *aws.World) {
			versions(w)
			w.Group("g", of("MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification", "Id", "lt-2")...)
		}, pinned + "the Auto Scaling group g)"},
		// moto ignores templates and images of overrides, and deleted versions.
		"an override": {func(w *aws.World) {
			versions(w)
			mixed(w, "<LaunchTemplateSpecification>"+second+"</LaunchTemplateSpecification>")
		}, pinned + "the Auto Scaling group g)"},
		"an override's image": {func(w *aws.World) { mixed(w, "<ImageId>"+third+"</ImageId>") }, "the Auto Scaling group g"},
		"a deleted version": {func(w *aws.World) {
			versions(w)
			mixed(w, "<LaunchTemplateSpecification>"+strings.Replace(second, "2</V", "9</V", 1)+"</LaunchTemplateSpecification>")
		}, ""},
		"a launch configuration": {func(w *aws.World) {
			for name, image := range map[string]string{"x": newest, "y": "z", "c": third} {
				w.Do("autoscaling:CreateLaunchConfiguration", "LaunchConfigurationName", name, "ImageId", image, "InstanceType", "m6i.large")
			}
		}, "the launch configuration c"},
		"a node group": {func(w *aws.World) {
			versions(w)
			nodeGroups(w, "a", "b")
			w.Do("eks:POST /clusters/my-cluster/node-groups", `{"nodegroupName":"n","subnets":["subnet-1"],"nodeRole":"`+aws.NodeRole+`","launchTemplate":{"id":"lt-2","version":"2"}}`)
		}, pinned + "the node group n of the cluster my-cluster)"},
		"a fleet": {func(w *aws.World) { versions(w); fleetOf(w) }, pinned + "the EC2 Fleet fleet-1)"},
		"a deleted fleet": {func(w *aws.World) {
			versions(w)
			fleetOf(w)
			w.Do("ec2:DeleteFleets", "FleetId.1", "fleet-1", "TerminateInstances", "false")
		}, ""},
		"a fleet's image": {func(w *aws.World) { // moto does not store the image
			w.Answer("ec2:DescribeFleets", `<R><fleetSet><item><fleetId>fleet-1</fleetId><fleetState>active</fleetState><launchTemplateConfigs><item><overrides><item><imageId>`+third+`</imageId></item></overrides></item></launchTemplateConfigs></item></fleetSet></R>`)
		}, "the EC2 Fleet fleet-1"},
		"a Spot Fleet": {spotFleet, "the Spot Fleet sfr-1"},
		"a Spot Fleet's template": {func(w *aws.World) { // moto does not support a template here
			versions(w)
			w.Answer("ec2:DescribeSpotFleetRequests", `<R><spotFleetRequestConfigSet><item><spotFleetRequestId>sfr-1</spotFleetRequestId><spotFleetRequestState>active</spotFleetRequestState><spotFleetRequestConfig><launchTemplateConfigs><item>`+
				`<launchTemplateSpecification><launchTemplateName>old</launchTemplateName><version>2</version></launchTemplateSpecification></item></launchTemplateConfigs></spotFleetRequestConfig></item></spotFleetRequestConfigSet></R>`)
		}, pinned + "the Spot Fleet sfr-1)"},
		"a cancelled Spot Fleet": {func(w *aws.World) {
			spotFleet(w)
			w.Do("ec2:CancelSpotFleetRequests", "SpotFleetRequestId.1", "sfr-1", "TerminateInstances", "false")
		}, ""},
		"protection": {func(w *aws.World) { w.Image(third).Protection = "enabled-without-cooldown" }, "its deregistration protection (enabled-without-cooldown)"},
		"a launch": {func(w *aws.World) { w.Image(third).Launched = time.Now().UTC().Format(time.RFC3339) },
			"an instance that was launched on " + time.Now().UTC().Format(time.DateOnly) + " in this or another account"},
		"an earlier launch":      {func(w *aws.World) { w.Image(third).Launched = time.Now().AddDate(0, 0, -2).UTC().Format(time.RFC3339) }, ""},
		"no launch":              {func(w *aws.World) { w.Image(third).Launched = "N/A" }, ""},
		"another account":        {share(aws.Share{Account: "111111111111"}), "a launch permission for the account 111111111111"},
		"its own account":        {share(aws.Share{Account: aws.Account}), ""},
		"all accounts":           {share(aws.Share{Group: "all"}), "a launch permission for all"},
		"an organization":        {share(aws.Share{Organization: "arn:aws:organizations::1:organization/o-1"}), "a launch permission for arn:aws:organizations::1:organization/o-1"},
		"an organization's unit": {share(aws.Share{Unit: "arn:aws:organizations::1:ou/o-1/ou-1"}), "a launch permission for arn:aws:organizations::1:ou/o-1/ou-1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fleet(t)
			w.PageSize = 1
			c.use(w)
			for _, yes := range []string{"", "--yes"} {
				out := succeeds(t, strings.Fields("ami retire --deregister --keep 1 --older-than 1 "+yes)...)
				assert.True(t, strings.HasPrefix(out, notSeen), out)
				if c.want == "" {
					assert.Contains(t, out, "deregister "+third)
					continue
				}
				assert.Contains(t, out, "keep "+third+" (debian-3, made ")
				assert.Contains(t, out, "); used by: "+c.want+"\n")
			}
			assert.Equal(t, c.want == "", w.Image(third) == nil)
			assert.Equal(t, c.want == "", !slices.Contains(w.SnapshotIDs(), "snap-3"))
			assert.NotContains(t, w.SnapshotIDs(), "snap-2", "snapshots of other retired images must be deleted")
		})
	}
}

// second is version 2 of a launch template in the XML of Auto Scaling.
const second = "<LaunchTemplateName>old</LaunchTemplateName><Version>2</Version>"

// mixed makes EC2 Auto Scaling return a group whose second override is this XML.
func mixed(w *aws.World, override string) {
	w.Answer("autoscaling:DescribeAutoScalingGroups", `<R><DescribeAutoScalingGroupsResult><AutoScalingGroups><member><AutoScalingGroupName>g</AutoScalingGroupName><MixedInstancesPolicy><LaunchTemplate>`+
		`<Overrides><member></member><member>`+override+`</member></Overrides></LaunchTemplate></MixedInstancesPolicy></member></AutoScalingGroups></DescribeAutoScalingGroupsResult></R>`)
}

// nodeGroups makes a cluster with node groups that have no launch template.
func nodeGroups(w *aws.World, names ...string) {
	w.Do("eks:POST /clusters", `{"name":"my-cluster","version":"1.34","roleArn":"arn:aws:iam::`+aws.Account+`:role/cluster","resourcesVpcConfig":{"subnetIds":["subnet-1"]}}`)
	for _, name := range names {
		w.Do("eks:POST /clusters/my-cluster/node-groups", `{"nodegroupName":"`+name+`","subnets":["subnet-1"],"nodeRole":"`+aws.NodeRole+`"}`)
	}
}

func fleetOf(w *aws.World) {
	w.Name("fleet-1", w.Do("ec2:CreateFleet", "LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateId", "lt-2", "LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version", "2",
		"LaunchTemplateConfigs.1.Overrides.1.InstanceType", "m6i.large", "Type", "maintain", "TargetCapacitySpecification.TotalTargetCapacity", "0", "TargetCapacitySpecification.DefaultTargetCapacityType", "on-demand"), `<fleetId>(.*?)<`)
}

func spotFleet(w *aws.World) {
	const config = "SpotFleetRequestConfig."
	w.Name("sfr-1", w.Do("ec2:RequestSpotFleet", config+"AllocationStrategy", "lowestPrice", config+"TargetCapacity", "0", config+"IamFleetRole", aws.NodeRole, config+"SpotPrice", "1",
		config+"LaunchSpecifications.1.ImageId", third, config+"LaunchSpecifications.1.InstanceType", "m6i.large"), `<spotFleetRequestId>(.*?)<`)
}

func share(with aws.Share) func(*aws.World) {
	return func(w *aws.World) { w.Image(third).Shares = []aws.Share{with} }
}

// everything creates a parameter, a launch template and a node group, so that the
// command makes every call.
func everything(w *aws.World) {
	w.Put("/n", newest)
	w.Template("lt-1", "nodes", "resolve:ssm:/n")
	nodeGroups(w, "n")
}

// A list that cannot be read may name a user. So no image is deregistered, and the
// error names the missing permission or the failure.
func TestUnreadableListsKeepAllImages(t *testing.T) {
	w := fleet(t)
	everything(w)
	for _, action := range awsapi.ImageActions() {
		service, verb, _ := strings.Cut(action, ":")
		if service+verb == "ec2DescribeImages" || verb == "DescribeSnapshots" || service+verb == "ec2DescribeRegions" || !strings.HasPrefix(verb, "Describe") && !strings.HasPrefix(verb, "List") && !strings.HasPrefix(verb, "Get") {
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
				w.Heal()
				c.hide(w)
				out, errOut := exits(t, 2, "ami", "retire", "--deregister", "--keep", "1", "--older-than", "1", "--yes")
				assert.Contains(t, errOut, c.want)
				assert.Contains(t, out, "keep "+third+" (debian-3, made ")
				assert.Contains(t, out, "; used by: unknown, because a list could not be read\n")
				assert.Len(t, w.Images, 7)
				assert.Empty(t, w.Count()["ec2:DeregisterImage"])
			})
		}
	}
}

// An instance that starts during the search keeps all images.
func TestImagesChangedDuringRetireAreKept(t *testing.T) {
	w := fleet(t)
	lists := 0
	w.Before("eks:ListClusters", func() {
		if lists++; lists == 1 { // the instances were listed before
			w.Launch("i-9", third)
		}
	})
	_, errOut := exits(t, 2, "ami", "retire", "--deregister", "--keep", "1", "--older-than", "1", "--yes")
	assert.Equal(t, "eksnode: AMIs or their users changed during the search, and nothing was deregistered; run eksnode ami retire again\n", errOut)
	assert.Len(t, w.Images, 7)
}

// A snapshot is deleted with the last image that uses the snapshot. A shared
// snapshot is kept.
func TestSnapshotsInUseAreKept(t *testing.T) {
	w := fleet(t)
	w.Image("debian-3").Devices = append(w.Image("debian-3").Devices, aws.Drive{Name: "/dev/xvdb", Snapshot: "snap-4"})
	w.Image("debian-2").Devices = append(w.Image("debian-2").Devices, aws.Drive{Name: "/dev/xvdb", Snapshot: "snap-0"})
	for _, s := range w.Snapshots {
		s.Shares = map[string][]aws.Share{"snap-1": {{Account: "111111111111"}}, "snap-2": {{Account: aws.Account}}}[s.ID]
	}
	want := "keep the snapshot snap-1 of ami-00000001; used by: a permission for the account 111111111111\n"
	for _, yes := range []string{"", "--yes"} {
		out := succeeds(t, strings.Fields("ami retire --deregister --keep 1 --older-than 1 "+yes)...)
		assert.Contains(t, out, want)
		assert.Contains(t, out, "keep the snapshot snap-0 of ami-00000002; used by: ami-00000000\n")
		assert.Contains(t, out, "keep the snapshot snap-4 of ami-00000003; used by: ami-00000004\n")
	}
	assert.Equal(t, []string{"snap-0", "snap-1", "snap-9"}, w.SnapshotIDs())
}

// The age of an image without a valid date is unknown.
func TestImagesWithoutADateAreKept(t *testing.T) {
	w := fleet(t)
	w.Image("debian-3").Created = "yesterday"
	_, out, _ := command(t, "", "ami", "retire", "--deregister", "--keep", "1", "--older-than", "1")
	assert.NotContains(t, out, third)
}

// The printed IAM policy allows exactly the calls that the commands make.
func TestTheImagePolicyEqualsTheCalls(t *testing.T) {
	w := fleet(t)
	everything(w)
	orphaned(w, "snap-0f", "eu-west-1", "", 0)
	for _, args := range []string{"list --region eu-west-1", "publish ami-00000000 --parameter /n", "retire --older-than 1 --yes", "retire --deregister --keep 1 --older-than 1 --yes", "retire --orphans --older-than 0 --yes"} {
		succeeds(t, strings.Fields("ami "+args)...)
	}
	assert.Equal(t, awsapi.ImageActions(), slices.Sorted(maps.Keys(w.Count())))
	for _, action := range awsapi.ImageActions() {
		assert.True(t, cli.Operation(action), action)
	}
}
