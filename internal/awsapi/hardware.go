package awsapi

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// InstanceType is the hardware of instances.
type InstanceType struct {
	Name string
	// Architectures and BootModes are in AWS's spelling: x86_64, arm64; legacy-bios,
	// uefi. Virtualization is hvm or paravirtual.
	Architectures, BootModes, Virtualization []string
	// ENA is required, supported or unsupported.
	ENA string
	// TPM says whether instances can have a NitroTPM. Current is false for previous
	// generations.
	TPM, Current bool
}

// InstanceTypes describes instance types by their names.
func (a *AWS) InstanceTypes(ctx context.Context, names []string) ([]InstanceType, error) {
	doing := "describing the instance types " + strings.Join(names, ", ")
	in := &ec2.DescribeInstanceTypesInput{}
	for _, name := range names {
		in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(name))
	}
	out, err := a.ec2.DescribeInstanceTypes(ctx, in)
	if err != nil {
		return nil, explain(doing, err)
	}
	var list []InstanceType
	for _, t := range out.InstanceTypes {
		if t.ProcessorInfo == nil {
			return nil, errIncomplete(doing, "processor")
		}
		one := InstanceType{
			Name: string(t.InstanceType), Architectures: texts(t.ProcessorInfo.SupportedArchitectures), BootModes: texts(t.SupportedBootModes),
			Virtualization: texts(t.SupportedVirtualizationTypes), TPM: t.NitroTpmSupport == types.NitroTpmSupportSupported, Current: aws.ToBool(t.CurrentGeneration),
		}
		if t.NetworkInfo != nil {
			one.ENA = string(t.NetworkInfo.EnaSupport)
		}
		list = append(list, one)
	}
	if len(list) != len(names) {
		return nil, errIncomplete(doing, "instance type")
	}
	slices.SortFunc(list, func(x, y InstanceType) int { return slices.Index(names, x.Name) - slices.Index(names, y.Name) })
	return list, nil
}

func texts[T ~string](values []T) []string {
	var list []string
	for _, v := range values {
		list = append(list, string(v))
	}
	return list
}

// Offering is an instance type that EC2 has in an availability zone.
type Offering struct{ Type, Zone string }

// Offerings lists which of some instance types EC2 has in which of some zones.
func (a *AWS) Offerings(ctx context.Context, names, zones []string) ([]Offering, error) {
	var list []Offering
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(a.ec2, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: types.LocationTypeAvailabilityZone,
		Filters:      []types.Filter{{Name: aws.String("instance-type"), Values: names}, {Name: aws.String("location"), Values: zones}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("listing the offerings of "+strings.Join(names, ", "), err)
		}
		for _, o := range page.InstanceTypeOfferings {
			list = append(list, Offering{string(o.InstanceType), aws.ToString(o.Location)})
		}
	}
	return list, nil
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
		if text := aws.ToString(e.Description); !strings.HasPrefix(text, "[Completed]") && !strings.HasPrefix(text, "[Canceled]") {
			h.Events = append(h.Events, strings.TrimSpace(string(e.Code)+" "+text))
		}
	}
	return h, nil
}
