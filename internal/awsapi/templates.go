package awsapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
)

// templateUse is a version of a launch template in use. A template is identified by
// ID or name.
type templateUse struct{ id, name, version, who string }

// uses records a user of a version of a template.
func (r *References) uses(id, name, version *string, who string) {
	r.templates = append(r.templates,
		templateUse{aws.ToString(id), aws.ToString(name), cmp.Or(aws.ToString(version), "$Default"), who})
}

func (r *References) groups(ctx context.Context) error {
	use := func(s *autoscalingtypes.LaunchTemplateSpecification, who string) {
		if s != nil {
			r.uses(s.LaunchTemplateId, s.LaunchTemplateName, s.Version, who)
		}
	}
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(r.aws.autoscaling,
		&autoscaling.DescribeAutoScalingGroupsInput{})
	return look(ctx, "listing the Auto Scaling groups", pages, func(g autoscalingtypes.AutoScalingGroup) {
		who := "the Auto Scaling group " + aws.ToString(g.AutoScalingGroupName)
		use(g.LaunchTemplate, who)
		for _, i := range g.Instances { // also those in warm pools and detaching ones
			use(i.LaunchTemplate, who)
		}
		if g.MixedInstancesPolicy == nil || g.MixedInstancesPolicy.LaunchTemplate == nil {
			return
		}
		use(g.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification, who)
		for _, o := range g.MixedInstancesPolicy.LaunchTemplate.Overrides {
			use(o.LaunchTemplateSpecification, who)
			r.use(aws.ToString(o.ImageId), who)
		}
	})
}

func (r *References) configurations(ctx context.Context) error {
	pages := autoscaling.NewDescribeLaunchConfigurationsPaginator(r.aws.autoscaling,
		&autoscaling.DescribeLaunchConfigurationsInput{})
	return look(ctx, "listing the launch configurations", pages, func(c autoscalingtypes.LaunchConfiguration) {
		r.use(aws.ToString(c.ImageId), "the launch configuration "+aws.ToString(c.LaunchConfigurationName))
	})
}

func (r *References) nodeGroups(ctx context.Context) error {
	clusters := eks.NewListClustersPaginator(r.aws.eks, &eks.ListClustersInput{Include: []string{"all"}})
	for name, err := range each[string](ctx, "listing the clusters", clusters) {
		if err != nil {
			return err
		}
		if err := r.nodeGroupsOf(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (r *References) nodeGroupsOf(ctx context.Context, cluster string) error {
	pages := eks.NewListNodegroupsPaginator(r.aws.eks, &eks.ListNodegroupsInput{ClusterName: aws.String(cluster)})
	for name, err := range each[string](ctx, "listing the node groups of "+cluster, pages) {
		if err != nil {
			return err
		}
		group, err := r.aws.nodegroup(ctx, cluster, name)
		if err != nil {
			return err
		}
		if s := group.LaunchTemplate; s != nil {
			r.uses(s.Id, s.Name, s.Version, fmt.Sprintf("the node group %s of the cluster %s", name, cluster))
		}
	}
	return nil
}

func (r *References) fleets(ctx context.Context) error {
	pages := ec2.NewDescribeFleetsPaginator(r.aws.ec2, &ec2.DescribeFleetsInput{})
	return look(ctx, "listing the EC2 Fleets", pages, func(f types.FleetData) {
		who := "the EC2 Fleet " + aws.ToString(f.FleetId)
		if strings.HasPrefix(string(f.FleetState), "deleted") {
			return
		}
		for _, c := range f.LaunchTemplateConfigs {
			if s := c.LaunchTemplateSpecification; s != nil {
				r.uses(s.LaunchTemplateId, s.LaunchTemplateName, s.Version, who)
			}
			for _, o := range c.Overrides {
				r.use(aws.ToString(o.ImageId), who)
			}
		}
	})
}

func (r *References) spotFleets(ctx context.Context) error {
	pages := ec2.NewDescribeSpotFleetRequestsPaginator(r.aws.ec2, &ec2.DescribeSpotFleetRequestsInput{})
	return look(ctx, "listing the Spot Fleets", pages, func(f types.SpotFleetRequestConfig) {
		who := "the Spot Fleet " + aws.ToString(f.SpotFleetRequestId)
		if f.SpotFleetRequestConfig == nil || strings.HasPrefix(string(f.SpotFleetRequestState), "cancelled") {
			return
		}
		for _, s := range f.SpotFleetRequestConfig.LaunchSpecifications {
			r.use(aws.ToString(s.ImageId), who)
		}
		for _, c := range f.SpotFleetRequestConfig.LaunchTemplateConfigs {
			if s := c.LaunchTemplateSpecification; s != nil {
				r.uses(s.LaunchTemplateId, s.LaunchTemplateName, s.Version, who)
			}
		}
	})
}

// launchTemplates searches the latest and the default version of every launch
// template, and the versions in use. Call it after the searches that record uses.
func (r *References) launchTemplates(ctx context.Context) error {
	pages := ec2.NewDescribeLaunchTemplatesPaginator(r.aws.ec2,
		&ec2.DescribeLaunchTemplatesInput{MaxResults: aws.Int32(200)})
	for t, err := range each[types.LaunchTemplate](ctx, "listing the launch templates", pages) {
		if err != nil {
			return err
		}
		if err := r.versions(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func (r *References) versions(ctx context.Context, t types.LaunchTemplate) error {
	id, name := aws.ToString(t.LaunchTemplateId), aws.ToString(t.LaunchTemplateName)
	numbers := map[string]int64{"$Latest": aws.ToInt64(t.LatestVersionNumber),
		"$Default": aws.ToInt64(t.DefaultVersionNumber)}
	who := map[int64][]string{}
	for _, version := range []string{"$Default", "$Latest"} {
		who[numbers[version]] = append(who[numbers[version]], version)
	}
	for _, use := range r.templates {
		if use.id != id && (use.id != "" || use.name != name) {
			continue
		}
		number, named := numbers[use.version]
		if !named {
			var err error
			if number, err = strconv.ParseInt(use.version, 10, 64); err != nil {
				return fmt.Errorf("reading the version of the launch template %s that %s uses: %w", name, use.who, err)
			}
		}
		if !slices.Contains(who[number], use.who) {
			who[number] = append(who[number], use.who)
		}
	}
	for _, number := range slices.Sorted(maps.Keys(who)) {
		image, err := r.versionImage(ctx, id, name, number)
		if err != nil {
			return err
		}
		r.use(image, fmt.Sprintf("the launch template %s, version %d (%s)", name, number,
			strings.Join(who[number], ", ")))
	}
	return nil
}

// versionImage is the image of a launch template's version, also when the version
// names an SSM parameter. It is empty without an image.
func (r *References) versionImage(ctx context.Context, id, name string, number int64) (string, error) {
	doing := fmt.Sprintf("describing the version %d of the launch template %s", number, name)
	out, err := r.aws.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: aws.String(id), Versions: []string{strconv.FormatInt(number, 10)},
	})
	if err = explain(doing, err); err != nil {
		if IsNotFound(err) { // a user of a missing version cannot start instances
			return "", nil
		}
		return "", err
	}
	if len(out.LaunchTemplateVersions) == 0 || out.LaunchTemplateVersions[0].LaunchTemplateData == nil {
		return "", errIncomplete(doing, "version")
	}
	image := aws.ToString(out.LaunchTemplateVersions[0].LaunchTemplateData.ImageId)
	parameter, named := strings.CutPrefix(image, awsnames.ByParameter)
	if !named {
		return image, nil
	}
	if value, known := r.parameters[parameter]; known {
		return value, nil
	}
	value, err := r.aws.Parameter(ctx, parameter)
	if err != nil && !IsNotFound(err) {
		return "", err
	}
	r.parameters[parameter] = value
	return value, nil
}
