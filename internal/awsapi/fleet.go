package awsapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

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
		in.Filters = []types.Filter{{Name: aws.String("instance-state-name"), Values: []string{"running", "stopped"}}}
	}
	for key, value := range f.Tags {
		filter := types.Filter{Name: aws.String("tag:" + key), Values: []string{value}}
		if value == "" {
			filter = types.Filter{Name: aws.String("tag-key"), Values: []string{key}}
		}
		in.Filters = append(in.Filters, filter)
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

// TakeSnapshot makes a snapshot of a node's root volume, or returns one that an
// interrupted audit has left. The caller removes it, also after an error with an ID.
func (a *AWS) TakeSnapshot(ctx context.Context, n Node) (string, error) {
	doing := "making a snapshot of the root volume of " + n.ID
	if n.Volume == "" {
		return "", fmt.Errorf("%s: %w", doing, errors.New("the instance has no root volume in EBS"))
	}
	left, err := a.ec2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{
		OwnerIds: []string{"self"}, Filters: []types.Filter{{Name: aws.String("tag:" + FleetTag), Values: []string{n.ID}}},
	})
	if err != nil {
		return "", explain(doing, err)
	}
	id := ""
	for _, s := range left.Snapshots { // EC2 lists deleted ones for a while
		found, err := a.Snapshot(ctx, aws.ToString(s.SnapshotId))
		if err == nil && id != "" {
			err = a.RemoveSnapshot(ctx, id)
		}
		switch {
		case err == nil:
			id = found.ID
		case !IsNotFound(err):
			return id, err
		}
	}
	if id == "" {
		made, err := a.ec2.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{
			VolumeId: aws.String(n.Volume), Description: aws.String("audit of " + n.ID + " by eksnode"),
			TagSpecifications: []types.TagSpecification{{
				ResourceType: types.ResourceTypeSnapshot, Tags: []types.Tag{{Key: aws.String(FleetTag), Value: aws.String(n.ID)}},
			}},
		})
		if err != nil {
			return "", explain(doing, err)
		}
		id = aws.ToString(made.SnapshotId)
	}
	_, err = a.AwaitSnapshot(ctx, id)
	return id, err
}

// FleetPolicy is an IAM policy for auditing nodes.
func FleetPolicy(s Scope) (string, error) {
	removal := allow("EksnodeRemoveSnapshots", s.snapshots(), "ec2:DeleteSnapshot")
	removal.Condition = map[string]map[string]string{"StringLike": {"aws:ResourceTag/" + FleetTag: "*"}}
	return policy(append(s.readForDiff(), allow("EksnodeNodes", oneOrMore{"*"}, "ec2:DescribeInstances"),
		allow("EksnodeSnapshots", append(s.snapshots(), s.arns("ec2", "*", "volume/*")...), "ec2:CreateSnapshot",
			"ec2:CreateTags"), removal))
}
