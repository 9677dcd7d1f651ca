package aws

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// Specification names a launch template's version.
type Specification struct {
	ID      string `xml:"LaunchTemplateId,omitempty"`
	Name    string `xml:"LaunchTemplateName,omitempty"`
	Version string `xml:"Version,omitempty"`
}

// ScalingGroup is an Auto Scaling group.
type ScalingGroup struct {
	Name          string         `xml:"AutoScalingGroupName"`
	Configuration string         `xml:"LaunchConfigurationName,omitempty"`
	Template      *Specification `xml:"LaunchTemplate,omitempty"`
	Mixed         *Specification `xml:"MixedInstancesPolicy>LaunchTemplate>LaunchTemplateSpecification,omitempty"`
	Overrides     []Override     `xml:"MixedInstancesPolicy>LaunchTemplate>Overrides>member"`
}

// Override is a part of a mixed group.
type Override struct {
	Image    string         `xml:"ImageId,omitempty"`
	Template *Specification `xml:"LaunchTemplateSpecification,omitempty"`
}

// Configuration is a launch configuration.
type Configuration struct {
	Name  string `xml:"LaunchConfigurationName"`
	Image string `xml:"ImageId"`
}

// Fleet is an EC2 Fleet.
type Fleet struct {
	ID      string        `xml:"fleetId"`
	State   string        `xml:"fleetState"`
	Configs []FleetConfig `xml:"launchTemplateConfigs>item"`
}

// FleetConfig is what a fleet starts.
type FleetConfig struct {
	ID      string   `xml:"launchTemplateSpecification>launchTemplateId,omitempty"`
	Version string   `xml:"launchTemplateSpecification>version,omitempty"`
	Images  []string `xml:"overrides>item>imageId"`
}

// SpotFleet is a request for a Spot Fleet.
type SpotFleet struct {
	ID      string        `xml:"spotFleetRequestId"`
	State   string        `xml:"spotFleetRequestState"`
	Images  []string      `xml:"spotFleetRequestConfig>launchSpecifications>item>imageId"`
	Configs []FleetConfig `xml:"spotFleetRequestConfig>launchTemplateConfigs>item"`
}

// SpotRequest is a request for a Spot instance.
type SpotRequest struct {
	ID    string `xml:"spotInstanceRequestId"`
	State string `xml:"state"`
	Image string `xml:"launchSpecification>imageId"`
}

// Share lets somebody use an image or a snapshot.
type Share struct {
	Account      string `xml:"userId,omitempty"`
	Group        string `xml:"group,omitempty"`
	Organization string `xml:"organizationArn,omitempty"`
	Unit         string `xml:"organizationalUnitArn,omitempty"`
}

// paged answers for a list of the world that comes in pages.
func paged[R, Out any](w *World, all func() []R, out func([]R, string) Out) endpoint.Action {
	return endpoint.Handle(func(_ context.Context, _ endpoint.Call, in struct {
		Token      string `query:"NextToken"`
		MaxResults int    `query:"MaxResults"`
	}) (Out, error) {
		return out(page(w, all(), in.Token)), nil
	})
}

type fleetsOut struct {
	Fleets []Fleet `xml:"fleetSet>item"`
	Token  string  `xml:"nextToken,omitempty"`
}

type spotFleetsOut struct {
	Fleets []SpotFleet `xml:"spotFleetRequestConfigSet>item"`
	Token  string      `xml:"nextToken,omitempty"`
}

type spotRequestsOut struct {
	Requests []SpotRequest `xml:"spotInstanceRequestSet>item"`
	Token    string        `xml:"nextToken,omitempty"`
}

// users are EC2's actions that tell what uses images.
func (w *World) users() map[string]endpoint.Action {
	return map[string]endpoint.Action{
		"DescribeFleets":               paged(w, func() []Fleet { return w.Fleets }, func(all []Fleet, next string) fleetsOut { return fleetsOut{all, next} }),
		"DescribeSpotFleetRequests":    paged(w, func() []SpotFleet { return w.SpotFleets }, func(all []SpotFleet, next string) spotFleetsOut { return spotFleetsOut{all, next} }),
		"DescribeSpotInstanceRequests": paged(w, func() []SpotRequest { return w.SpotRequests }, func(all []SpotRequest, next string) spotRequestsOut { return spotRequestsOut{all, next} }),
		"DescribeLaunchTemplates":      paged(w, w.templates, func(all []template, next string) launchTemplatesOut { return launchTemplatesOut{all, next} }),
		"DescribeImageAttribute":       endpoint.Handle(w.describeImageAttribute),
		"DescribeSnapshotAttribute":    endpoint.Handle(w.describeSnapshotAttribute),
	}
}

type template struct {
	ID      string `xml:"launchTemplateId"`
	Name    string `xml:"launchTemplateName"`
	Latest  int    `xml:"latestVersionNumber"`
	Default int    `xml:"defaultVersionNumber"`
}

type launchTemplatesOut struct {
	Templates []template `xml:"launchTemplates>item"`
	Token     string     `xml:"nextToken,omitempty"`
}

// templates are the launch templates whose versions the world has.
func (w *World) templates() []template {
	var all []template
	for _, v := range w.Templates {
		i := slices.IndexFunc(all, func(t template) bool { return t.ID == v.ID })
		if i < 0 {
			all, i = append(all, template{ID: v.ID, Name: v.Name}), len(all)
		}
		all[i].Latest = max(all[i].Latest, v.Version)
		if all[i].Default == 0 || v.Default {
			all[i].Default = v.Version
		}
	}
	return all
}

// versionsOf are versions of a launch template: by number, $Latest or $Default.
func (w *World) versionsOf(id string, wanted []string) ([]Template, error) {
	var chosen []Template
	for _, t := range w.templates() {
		for _, version := range wanted {
			number := map[string]string{"$Latest": strconv.Itoa(t.Latest), "$Default": strconv.Itoa(t.Default)}[version]
			if number == "" {
				number = version
			}
			i := slices.IndexFunc(w.Templates, func(v Template) bool { return v.ID == id && strconv.Itoa(v.Version) == number })
			if t.ID == id && i < 0 {
				return nil, endpoint.Fail("InvalidLaunchTemplateId.VersionNotFound", "Could not find launch template version %s", version)
			}
			if t.ID == id {
				chosen = append(chosen, w.Templates[i])
			}
		}
	}
	return chosen, nil
}

type imageAttributeOut struct {
	ID     string  `xml:"imageId"`
	Shares []Share `xml:"launchPermission>item"`
}

func (w *World) describeImageAttribute(_ context.Context, _ endpoint.Call, in struct {
	ID        string `query:"ImageId"`
	Attribute string `query:"Attribute"`
}) (imageAttributeOut, error) {
	if in.Attribute != "launchPermission" {
		return imageAttributeOut{}, endpoint.Refuse("the attribute %q", in.Attribute)
	}
	if _, err := w.own(in.ID); err != nil {
		return imageAttributeOut{}, err
	}
	return imageAttributeOut{in.ID, w.Shares[in.ID]}, nil
}

type snapshotAttributeOut struct {
	ID     string  `xml:"snapshotId"`
	Shares []Share `xml:"createVolumePermission>item"`
}

func (w *World) describeSnapshotAttribute(_ context.Context, _ endpoint.Call, in struct {
	ID        string `query:"SnapshotId"`
	Attribute string `query:"Attribute"`
}) (snapshotAttributeOut, error) {
	if in.Attribute != "createVolumePermission" {
		return snapshotAttributeOut{}, endpoint.Refuse("the attribute %q", in.Attribute)
	}
	if !slices.Contains(w.Snapshots, in.ID) {
		return snapshotAttributeOut{}, endpoint.Fail("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", in.ID)
	}
	return snapshotAttributeOut{in.ID, w.Shares[in.ID]}, nil
}

type scalingGroupsOut struct {
	Groups []ScalingGroup `xml:"AutoScalingGroups>member"`
	Token  string         `xml:"NextToken,omitempty"`
}

type configurationsOut struct {
	Configurations []Configuration `xml:"LaunchConfigurations>member"`
	Token          string          `xml:"NextToken,omitempty"`
}

func (w *World) autoscaling() endpoint.Service {
	return endpoint.Service{Name: "autoscaling", Protocol: endpoint.Query{Version: "2011-01-01"}, Actions: map[string]endpoint.Action{
		"DescribeAutoScalingGroups": paged(w, func() []ScalingGroup { return w.ScalingGroups },
			func(all []ScalingGroup, next string) scalingGroupsOut { return scalingGroupsOut{all, next} }),
		"DescribeLaunchConfigurations": paged(w, func() []Configuration { return w.Configurations },
			func(all []Configuration, next string) configurationsOut { return configurationsOut{all, next} }),
	}}
}

func (w *World) listClusters(_ context.Context, _ endpoint.Call, in eksIn) (object, error) {
	names, next := page(w, slices.Sorted(maps.Keys(w.Clusters)), in.Token)
	return listed("clusters", names, next), nil
}

func (w *World) listNodegroups(_ context.Context, _ endpoint.Call, in eksIn) (object, error) {
	names, next := page(w, slices.Sorted(maps.Keys(w.NodeGroups[in.Name])), in.Token)
	return listed("nodegroups", names, next), nil
}

// listed is a list as EKS answers with it.
func listed(name string, all []string, next string) object {
	out := object{name: all}
	if next != "" {
		out["nextToken"] = next
	}
	return out
}

func (w *World) describeNodegroup(_ context.Context, _ endpoint.Call, in eksIn) (object, error) {
	out := object{"nodegroupName": in.Group, "clusterName": in.Name}
	if s := w.NodeGroups[in.Name][in.Group]; s != (Specification{}) {
		out["launchTemplate"] = object{"id": s.ID, "name": s.Name, "version": s.Version}
	}
	return object{"nodegroup": out}, nil
}
