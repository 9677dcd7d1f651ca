package awsapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Launch is the configuration with which an instance starts.
type Launch struct {
	// From names the source, such as "the instance i-1".
	From string
	// Template and Version are the launch template's ID and version number. They
	// are empty for instances.
	Template, Version string
	// Image is an ID or, in templates, resolve:ssm: and a parameter's name.
	Image string
	Type  string
	// Tags are the instance's tags. AllTags are all tags that the template sets.
	Tags    map[string]string
	AllTags []types.LaunchTemplateTagSpecification
	// Subnet is empty in templates that leave it to their group.
	Subnet         string
	SecurityGroups []string
	// Profile is the instance profile's name or ARN.
	Profile  string
	UserData []byte
	// Tokens is required or optional (IMDSv2). HopLimit is 0 when it is not set.
	// NoMetadata says that the metadata service is off.
	Tokens     string
	HopLimit   int
	NoMetadata bool
	// Metadata and Interfaces are the template's data about the metadata service
	// and the network interfaces. A new version that changes one field must repeat
	// the others.
	Metadata   map[string]any
	Interfaces []map[string]any
	// PublicAddress says whether the instance has or gets a public address. nil
	// leaves the decision to the subnet.
	PublicAddress *bool
	// State is the state of an instance, and StateReason why it is in this state.
	State, StateReason string
	// Requirements says that the template has requirements instead of an instance
	// type.
	Requirements bool
	// Devices are the template's disks. MetadataTags says that instances can read
	// their tags from the metadata service.
	Devices      []BlockDevice
	MetadataTags bool
	// Unmanaged are the template's settings that EKS refuses for managed node
	// groups, except the instance profile.
	Unmanaged []string
	// Addresses are the public IPv4 addresses of an instance.
	Addresses []string
	// IPv6Address says whether the instance has or gets an IPv6 address. nil leaves
	// the decision to the subnet.
	IPv6Address *bool
}

// Instance reads the configuration with which an instance was started.
func (a *AWS) Instance(ctx context.Context, id string) (Launch, error) {
	doing := "describing the instance " + id
	var out *ec2.DescribeInstancesOutput
	err := a.settled(ctx, func() (err error) {
		out, err = a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		return explain(doing, err)
	})
	if err != nil {
		return Launch{}, err
	}
	if len(out.Reservations) != 1 || len(out.Reservations[0].Instances) != 1 {
		return Launch{}, errIncomplete(doing, "instance")
	}
	in := out.Reservations[0].Instances[0]
	if err := ended(doing, in); err != nil {
		return Launch{}, err
	}
	l := Launch{
		From: "the instance " + id, Image: aws.ToString(in.ImageId), Type: string(in.InstanceType),
		Tags: tagsOf(in.Tags), Subnet: aws.ToString(in.SubnetId),
		PublicAddress: aws.Bool(aws.ToString(in.PublicIpAddress) != ""),
	}
	if address := aws.ToString(in.PublicIpAddress); address != "" {
		l.Addresses = []string{address}
	}
	l.IPv6Address = aws.Bool(aws.ToString(in.Ipv6Address) != "" || slices.ContainsFunc(in.NetworkInterfaces,
		func(n types.InstanceNetworkInterface) bool { return len(n.Ipv6Addresses)+len(n.Ipv6Prefixes) > 0 }))
	l.State, l.StateReason = stateOf(in)
	l.SecurityGroups = show.Each(in.SecurityGroups,
		func(g types.GroupIdentifier) string { return aws.ToString(g.GroupId) })
	if in.IamInstanceProfile != nil {
		l.Profile = aws.ToString(in.IamInstanceProfile.Arn)
	}
	if m := in.MetadataOptions; m != nil {
		l.Tokens, l.HopLimit = string(m.HttpTokens), int(aws.ToInt32(m.HttpPutResponseHopLimit))
		l.NoMetadata = m.HttpEndpoint == types.InstanceMetadataEndpointStateDisabled
	}
	attribute, err := a.ec2.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{
		InstanceId: aws.String(id), Attribute: types.InstanceAttributeNameUserData,
	})
	if err != nil {
		return Launch{}, explain("reading the user data of "+id, err)
	}
	if attribute.UserData != nil {
		l.UserData, err = base64.StdEncoding.DecodeString(aws.ToString(attribute.UserData.Value))
	}
	if err != nil {
		return Launch{}, fmt.Errorf("reading the user data of %s: %w", id, err)
	}
	return l, nil
}

// Template reads a version of a launch template. The version is a number, $Latest
// or $Default; the template is an ID or a name.
func (a *AWS) Template(ctx context.Context, template, version string) (Launch, error) {
	doing := "describing the launch template " + template
	in := &ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{version}}
	if strings.HasPrefix(template, "lt-") {
		in.LaunchTemplateId = aws.String(template)
	} else {
		in.LaunchTemplateName = aws.String(template)
	}
	out, err := a.ec2.DescribeLaunchTemplateVersions(ctx, in)
	if err != nil {
		return Launch{}, explain(doing, err)
	}
	if len(out.LaunchTemplateVersions) != 1 || out.LaunchTemplateVersions[0].LaunchTemplateData == nil {
		return Launch{}, errIncomplete(doing, "version "+version)
	}
	data := out.LaunchTemplateVersions[0].LaunchTemplateData
	l := launchOf(data)
	var disks []types.BlockDeviceMapping
	if err := errors.Join(bare(data.MetadataOptions, &l.Metadata), bare(data.NetworkInterfaces, &l.Interfaces),
		bare(data.BlockDeviceMappings, &disks)); err != nil {
		return Launch{}, fmt.Errorf("%s: %w", doing, err)
	}
	l.Devices = devicesOf(disks)
	delete(l.Metadata, "State") // which EC2 adds
	l.From, l.Template = "the launch template "+template, aws.ToString(out.LaunchTemplateVersions[0].LaunchTemplateId)
	l.Version = strconv.FormatInt(aws.ToInt64(out.LaunchTemplateVersions[0].VersionNumber), 10)
	if l.UserData, err = base64.StdEncoding.DecodeString(aws.ToString(data.UserData)); err != nil {
		return Launch{}, fmt.Errorf("reading the user data of %s: %w", template, err)
	}
	return l, nil
}

func launchOf(data *types.ResponseLaunchTemplateData) Launch {
	l := Launch{
		Image: aws.ToString(data.ImageId), Type: string(data.InstanceType), Tags: map[string]string{},
		SecurityGroups: data.SecurityGroupIds, Unmanaged: unmanaged(data),
		Requirements: data.InstanceRequirements != nil, AllTags: data.TagSpecifications,
	}
	for _, s := range data.TagSpecifications {
		if s.ResourceType == types.ResourceTypeInstance {
			l.Tags = tagsOf(s.Tags)
		}
	}
	for _, n := range data.NetworkInterfaces {
		if aws.ToInt32(n.DeviceIndex) == 0 {
			l.SecurityGroups = append(l.SecurityGroups, n.Groups...)
			l.Subnet, l.PublicAddress = aws.ToString(n.SubnetId), n.AssociatePublicIpAddress
			if aws.ToInt32(n.Ipv6AddressCount)+aws.ToInt32(n.Ipv6PrefixCount) > 0 ||
				len(n.Ipv6Addresses)+len(n.Ipv6Prefixes) > 0 {
				l.IPv6Address = aws.Bool(true)
			}
		}
	}
	if p := data.IamInstanceProfile; p != nil {
		l.Profile = first(p.Arn, p.Name)
	}
	if m := data.MetadataOptions; m != nil {
		l.Tokens, l.HopLimit = string(m.HttpTokens), int(aws.ToInt32(m.HttpPutResponseHopLimit))
		l.NoMetadata = m.HttpEndpoint == types.LaunchTemplateInstanceMetadataEndpointStateDisabled
		l.MetadataTags = m.InstanceMetadataTags == types.LaunchTemplateInstanceMetadataTagsStateEnabled
	}
	return l
}

// Console returns the newest console output that EC2 has of an instance, or an
// error if EC2 has none.
func (a *AWS) Console(ctx context.Context, id string) ([]byte, error) {
	doing := "reading the console output of the instance " + id
	text, err := a.console(ctx, id, true)
	var api *APIError
	switch {
	// Only Nitro instances have the latest output.
	// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetConsoleOutput.html
	case errors.As(err, &api) &&
		(strings.HasPrefix(api.Code, "Unsupported") || strings.HasPrefix(api.Code, "InvalidParameter")):
		text, err = a.console(ctx, id, false)
	case err == nil && len(text) == 0:
		text, err = a.console(ctx, id, false)
	}
	switch {
	case IsNotFound(err):
		return nil, fmt.Errorf("%s: %w; check the ID, the account and the region, which is %s", doing, err, a.Region)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", doing, err)
	case len(text) == 0:
		return nil, fmt.Errorf("%s: EC2 has none yet; try again some minutes after the start, or read the logs "+
			"on the node", doing)
	}
	return text, nil
}

// console returns the console output, latest or as of the last start and stop.
func (a *AWS) console(ctx context.Context, id string, latest bool) ([]byte, error) {
	out, err := a.ec2.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{InstanceId: &id, Latest: Some(latest)})
	if err != nil {
		return nil, explain("ec2:GetConsoleOutput", err)
	}
	text, err := base64.StdEncoding.DecodeString(aws.ToString(out.Output))
	if err != nil {
		return nil, fmt.Errorf("decoding the answer: %w", err)
	}
	return text, nil
}

// FleetTag is the tag of the snapshots that an audit of nodes makes. Its value is the
// instance.
const FleetTag = TagPrefix + "fleet-audit"

// Fleet selects instances. The zero Fleet is none.
type Fleet struct {
	// Instances are IDs.
	Instances []string
	// Tags are values by key; an empty value is any. Nodes of a cluster have the tag
	// kubernetes.io/cluster/NAME (https://docs.aws.amazon.com/eks/latest/userguide/worker.html).
	Tags map[string]string
}

// Node is an instance with a root volume.
type Node struct{ ID, Image, Volume string }

// Nodes lists the running and stopped instances of a fleet, by ID.
func (a *AWS) Nodes(ctx context.Context, f Fleet) ([]Node, error) {
	in := &ec2.DescribeInstancesInput{InstanceIds: f.Instances}
	if len(f.Instances) == 0 {
		in.Filters = []types.Filter{{Name: new("instance-state-name"), Values: []string{"running", "stopped"}}}
	}
	for key, value := range f.Tags {
		in.Filters = append(in.Filters, tagFilter(key, cmp.Or(value, "*"))...)
	}
	pages := ec2.NewDescribeInstancesPaginator(a.ec2, in)
	var all []Node
	for reservation, err := range each[types.Reservation](ctx, "listing the instances", pages) {
		if err != nil {
			return nil, err
		}
		for _, i := range reservation.Instances {
			n := Node{ID: aws.ToString(i.InstanceId), Image: aws.ToString(i.ImageId)}
			for _, d := range i.BlockDeviceMappings {
				if d.Ebs != nil && aws.ToString(d.DeviceName) == aws.ToString(i.RootDeviceName) {
					n.Volume = aws.ToString(d.Ebs.VolumeId)
				}
			}
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(x, y Node) int { return strings.Compare(x.ID, y.ID) })
	return all, nil
}

// leftMost is how old a snapshot of an interrupted audit may be. An older one would show
// a disk of the past.
const leftMost = time.Hour

// TakeSnapshot makes a snapshot of a node's root volume, or returns one that an
// interrupted audit has left within an hour. Older ones are removed. The caller removes
// the snapshot, also after an error with an ID.
func (a *AWS) TakeSnapshot(ctx context.Context, n Node) (Snapshot, error) {
	doing := "making a snapshot of the root volume of " + n.ID
	left, err := a.nodeSnapshots(ctx, doing, n, "tag:"+FleetTag, n.ID)
	if err != nil {
		return Snapshot{}, err
	}
	var taken Snapshot
	for _, s := range left { // EC2 lists deleted ones for a while
		found, err := a.Snapshot(ctx, s.ID)
		switch {
		case err == nil && (taken.ID != "" || time.Since(found.Started) > leftMost):
			err = a.RemoveSnapshot(ctx, found.ID)
		case err == nil:
			taken = found
		}
		if err != nil && !IsNotFound(err) {
			return taken, err
		}
	}
	if taken.ID == "" {
		making, end := unbroken(ctx)
		defer end()
		made, err := a.ec2.CreateSnapshot(making, &ec2.CreateSnapshotInput{
			VolumeId: aws.String(n.Volume), Description: aws.String("audit of " + n.ID + " by eksnode"),
			TagSpecifications: Tagged(types.ResourceTypeSnapshot, map[string]string{FleetTag: n.ID}),
		})
		if err != nil {
			return Snapshot{}, explain(doing, err)
		}
		taken.ID = aws.ToString(made.SnapshotId)
	}
	done, err := a.AwaitSnapshot(ctx, taken.ID)
	done.ID = taken.ID
	return done, err
}

// NewestSnapshot returns the newest complete snapshot of a node's root volume.
func (a *AWS) NewestSnapshot(ctx context.Context, n Node) (Snapshot, error) {
	doing := "looking for a snapshot of the root volume of " + n.ID
	all, err := a.nodeSnapshots(ctx, doing, n, "volume-id", n.Volume)
	if err != nil {
		return Snapshot{}, err
	}
	all = slices.DeleteFunc(all, func(s Snapshot) bool { return s.State != SnapshotCompleted || s.Archived })
	if len(all) == 0 {
		return Snapshot{}, fmt.Errorf("%s: %s has no complete snapshot of yours outside the archive", doing, n.Volume)
	}
	return slices.MaxFunc(all, func(x, y Snapshot) int { return x.Started.Compare(y.Started) }), nil
}

// nodeSnapshots lists the account's snapshots for a node.
func (a *AWS) nodeSnapshots(ctx context.Context, doing string, n Node, filter ...string) ([]Snapshot, error) {
	if n.Volume == "" {
		return nil, fmt.Errorf("%s: the instance has no root volume in EBS", doing)
	}
	return a.ownSnapshots(ctx, doing, filters(filter...)...)
}
