package awsapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/freetier"
	freetiertypes "github.com/aws/aws-sdk-go-v2/service/freetier/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// InstanceType is the hardware of instances.
type InstanceType struct {
	Name string
	// Architectures and BootModes are in AWS's spelling: x86_64, arm64; legacy-bios,
	// uefi. Virtualization is hvm or paravirtual.
	Architectures, BootModes, Virtualization []string
	// TPM says whether instances can have a NitroTPM. Current is false for previous
	// generations.
	TPM, Current bool
	// FreePlan says whether an account on AWS's free plan may start instances.
	FreePlan bool
	// VCPUs are those of an instance without CPU options; 0 when unknown.
	VCPUs int
}

// vcpuQuotas are the quotas of vCPUs of running On-Demand instances by the families of
// instance types (https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html).
var vcpuQuotas = []struct {
	families   []string
	name, code string
}{
	{[]string{"a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"}, "Standard (A, C, D, H, I, M, R, T, Z)",
		"L-1216C47A"},
	{[]string{"g", "gr", "vt"}, "G and VT", "L-DB2E81BA"},
	{[]string{"p"}, "P", "L-417A185B"},
	{[]string{"f"}, "F", "L-74FC7D96"},
	{[]string{"x"}, "X", "L-7295265B"},
}

// VCPUQuota reads the quota of vCPUs of running On-Demand instances of a type. The code of
// a family that is not known is empty.
func (a *AWS) VCPUQuota(ctx context.Context, name string) (q Quota, err error) {
	family, _, _ := strings.Cut(name, ".")
	if digit := strings.IndexAny(family, "0123456789"); digit > 0 {
		family = family[:digit]
	}
	for _, one := range vcpuQuotas {
		if slices.Contains(one.families, family) {
			q = Quota{Name: "running On-Demand " + one.name + " instances", Service: "ec2", Code: one.code}
			q.Limit, err = a.limit(ctx, q.Service, q.Code)
			return q, explain("reading the quota of vCPUs of "+q.Name, err)
		}
	}
	return q, nil
}

// OnFreePlan says whether the account is on AWS's free plan. Accounts from before July 2025
// have no plan
// (https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_freetier_GetAccountPlanState.html).
func (a *AWS) OnFreePlan(ctx context.Context) (bool, error) {
	out, err := a.freetier.GetAccountPlanState(ctx, &freetier.GetAccountPlanStateInput{})
	if err = explain("reading the account's plan", err); err != nil && !IsNotFound(err) {
		return false, err
	}
	return err == nil && out.AccountPlanType == freetiertypes.AccountPlanTypeFree, nil
}

// InstanceTypes describes instance types by their names.
func (a *AWS) InstanceTypes(ctx context.Context, names []string) ([]InstanceType, error) {
	doing := "describing the instance types " + strings.Join(names, ", ")
	out, err := a.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{
		InstanceTypes: show.Each(names, func(name string) types.InstanceType { return types.InstanceType(name) }),
	})
	if err != nil {
		return nil, explain(doing, err)
	}
	var list []InstanceType
	for _, t := range out.InstanceTypes {
		if t.ProcessorInfo == nil {
			return nil, errIncomplete(doing, "processor")
		}
		one := InstanceType{
			Name: string(t.InstanceType), Architectures: texts(t.ProcessorInfo.SupportedArchitectures),
			BootModes: texts(t.SupportedBootModes), Virtualization: texts(t.SupportedVirtualizationTypes),
			TPM: t.NitroTpmSupport == types.NitroTpmSupportSupported, Current: aws.ToBool(t.CurrentGeneration),
			FreePlan: aws.ToBool(t.FreeTierEligible),
		}
		if t.VCpuInfo != nil {
			one.VCPUs = int(aws.ToInt32(t.VCpuInfo.DefaultVCpus))
		}
		list = append(list, one)
	}
	if len(list) != len(names) {
		return nil, errIncomplete(doing, "instance type")
	}
	slices.SortFunc(list, func(x, y InstanceType) int {
		return slices.Index(names, x.Name) - slices.Index(names, y.Name)
	})
	return list, nil
}

func texts[T ~string](values []T) []string {
	return show.Each(values, func(v T) string { return string(v) })
}

// OfferingZones lists those of some zones in which EC2 has one of some instance types.
func (a *AWS) OfferingZones(ctx context.Context, names, zones []string) ([]string, error) {
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(a.ec2, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: types.LocationTypeAvailabilityZone,
		Filters: []types.Filter{
			{Name: aws.String("instance-type"), Values: names}, {Name: aws.String("location"), Values: zones},
		},
	})
	return collect(each[types.InstanceTypeOffering](ctx, "listing the offerings of "+strings.Join(names, ", "), pages),
		func(o types.InstanceTypeOffering) string { return aws.ToString(o.Location) })
}

// Health is the result of EC2's checks of a running instance.
type Health struct {
	// System, Instance and Storage are ok, initializing, impaired, insufficient-data,
	// not-applicable or empty.
	System, Instance, Storage string
	// Events are scheduled events that are not over.
	Events []string
}

// Health reads EC2's checks of an instance. An instance that is not running has
// none.
func (a *AWS) Health(ctx context.Context, id string) (Health, error) {
	doing := "reading the status checks of the instance " + id
	out, err := a.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{InstanceIds: []string{id}})
	if err != nil {
		return Health{}, explain(doing, err)
	}
	if len(out.InstanceStatuses) == 0 {
		return Health{}, nil
	}
	s, h := out.InstanceStatuses[0], Health{}
	if s.SystemStatus != nil {
		h.System = string(s.SystemStatus.Status)
	}
	if s.InstanceStatus != nil {
		h.Instance = string(s.InstanceStatus.Status)
	}
	if s.AttachedEbsStatus != nil {
		h.Storage = string(s.AttachedEbsStatus.Status)
	}
	for _, e := range s.Events {
		if text := aws.ToString(e.Description); !strings.HasPrefix(text, "[Completed]") &&
			!strings.HasPrefix(text, "[Canceled]") {
			h.Events = append(h.Events, strings.TrimSpace(string(e.Code)+" "+text))
		}
	}
	return h, nil
}

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
	Issues            []ekstypes.Issue
}

// NodeGroup describes a managed node group.
func (a *AWS) NodeGroup(ctx context.Context, cluster, name string) (NodeGroup, error) {
	in, err := a.nodegroup(ctx, cluster, name)
	if err != nil {
		return NodeGroup{}, err
	}
	return groupOf(in), nil
}

func (a *AWS) nodegroup(ctx context.Context, cluster, name string) (*ekstypes.Nodegroup, error) {
	doing := fmt.Sprintf("describing the node group %s of %s", name, cluster)
	out, err := a.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: &name})
	if err != nil {
		return nil, explain(doing, err)
	}
	if out.Nodegroup == nil || aws.ToString(out.Nodegroup.NodeRole) == "" {
		return nil, errIncomplete(doing, "node group with a role")
	}
	return out.Nodegroup, nil
}

func groupOf(in *ekstypes.Nodegroup) NodeGroup {
	g := NodeGroup{
		Name: aws.ToString(in.NodegroupName), Status: string(in.Status), Role: aws.ToString(in.NodeRole),
		Subnets: in.Subnets, AMIType: string(in.AmiType), Version: aws.ToString(in.Version),
		Release: aws.ToString(in.ReleaseVersion), InstanceTypes: in.InstanceTypes, Capacity: string(in.CapacityType),
	}
	if t := in.LaunchTemplate; t != nil {
		g.Template = first(t.Id, t.Name)
		g.TemplateVersion = cmp.Or(aws.ToString(t.Version), "$Default")
	}
	if s := in.ScalingConfig; s != nil {
		g.Min, g.Desired, g.Max = int(aws.ToInt32(s.MinSize)), int(aws.ToInt32(s.DesiredSize)),
			int(aws.ToInt32(s.MaxSize))
	}
	if in.Health != nil {
		g.Issues = in.Health.Issues
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
