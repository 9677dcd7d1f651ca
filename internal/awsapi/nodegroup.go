package awsapi

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// NodeGroup is a managed node group.
type NodeGroup struct {
	Name, Status string
	// Role is the ARN of the nodes' role.
	Role    string
	Subnets []string
	// AMIType is CUSTOM when the launch template names the image. Otherwise EKS
	// selects the image, by type, Kubernetes version and release.
	AMIType, Version, Release string
	// Template and TemplateVersion are empty when EKS wrote the launch template.
	Template, TemplateVersion string
	// InstanceTypes is empty when the launch template names the type.
	InstanceTypes []string
	// Capacity is ON_DEMAND, SPOT or CAPACITY_BLOCK.
	Capacity          string
	Min, Desired, Max int
	Issues            []Issue
}

// Issue is a problem that EKS found.
type Issue struct {
	Code, Message string
	Resources     []string
}

// NodeGroup describes a managed node group.
func (a *AWS) NodeGroup(ctx context.Context, cluster, name string) (NodeGroup, error) {
	doing := fmt.Sprintf("describing the node group %s of %s", name, cluster)
	out, err := a.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: aws.String(cluster), NodegroupName: aws.String(name)})
	if err != nil {
		return NodeGroup{}, explain(doing, err)
	}
	if out.Nodegroup == nil || aws.ToString(out.Nodegroup.NodeRole) == "" {
		return NodeGroup{}, errIncomplete(doing, "node group with a role")
	}
	return groupOf(out.Nodegroup), nil
}

func groupOf(in *ekstypes.Nodegroup) NodeGroup {
	g := NodeGroup{
		Name: aws.ToString(in.NodegroupName), Status: string(in.Status), Role: aws.ToString(in.NodeRole), Subnets: in.Subnets,
		AMIType: string(in.AmiType), Version: aws.ToString(in.Version), Release: aws.ToString(in.ReleaseVersion),
		InstanceTypes: in.InstanceTypes, Capacity: string(in.CapacityType),
	}
	if t := in.LaunchTemplate; t != nil {
		g.Template, g.TemplateVersion = aws.ToString(t.Id), aws.ToString(t.Version)
		if g.Template == "" {
			g.Template = aws.ToString(t.Name)
		}
		if g.TemplateVersion == "" {
			g.TemplateVersion = "$Default"
		}
	}
	if s := in.ScalingConfig; s != nil {
		g.Min, g.Desired, g.Max = int(aws.ToInt32(s.MinSize)), int(aws.ToInt32(s.DesiredSize)), int(aws.ToInt32(s.MaxSize))
	}
	if in.Health != nil {
		for _, i := range in.Health.Issues {
			g.Issues = append(g.Issues, Issue{string(i.Code), aws.ToString(i.Message), i.ResourceIds})
		}
	}
	return g
}

// unmanaged lists the settings of a launch template that EKS refuses for managed
// node groups
// (https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html). The
// instance profile is not among them: Launch has it.
func unmanaged(data *types.ResponseLaunchTemplateData) []string {
	var list []string
	for i, n := range data.NetworkInterfaces {
		if aws.ToString(n.SubnetId) != "" {
			list = append(list, fmt.Sprintf("NetworkInterfaces[%d].SubnetId", i))
		}
	}
	if data.InstanceMarketOptions != nil && data.InstanceMarketOptions.MarketType == types.MarketTypeSpot {
		list = append(list, "InstanceMarketOptions")
	}
	if data.HibernationOptions != nil && aws.ToBool(data.HibernationOptions.Configured) {
		list = append(list, "HibernationOptions")
	}
	if data.InstanceInitiatedShutdownBehavior != "" {
		list = append(list, "InstanceInitiatedShutdownBehavior")
	}
	return list
}
