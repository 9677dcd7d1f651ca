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

// TakeSnapshot makes a snapshot of a node's root volume, or returns one that an
// interrupted audit has left. The caller removes it, also after an error with an ID.
func (a *AWS) TakeSnapshot(ctx context.Context, n Node) (Snapshot, error) {
	doing := "making a snapshot of the root volume of " + n.ID
	left, err := a.nodeSnapshots(ctx, doing, n, "tag:"+FleetTag, n.ID)
	if err != nil {
		return Snapshot{}, err
	}
	var taken Snapshot
	for _, s := range left { // EC2 lists deleted ones for a while
		found, err := a.Snapshot(ctx, s.ID)
		if err == nil && taken.ID != "" {
			err = a.RemoveSnapshot(ctx, taken.ID)
		}
		switch {
		case err == nil:
			taken = found
		case !IsNotFound(err):
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

// FleetPolicy is an IAM policy for auditing nodes.
func FleetPolicy(s Scope) (string, error) {
	removal := allow("EksnodeRemoveSnapshots", s.snapshots(), "ec2:DeleteSnapshot")
	removal.Condition = map[string]map[string]string{"StringLike": {"aws:ResourceTag/" + FleetTag: "*"}}
	return policy(append(s.readForDiff(), allow("EksnodeNodes", oneOrMore{"*"}, "ec2:DescribeInstances"),
		allow("EksnodeSnapshots", append(s.snapshots(), s.arns("ec2", "*", "volume/*")...), "ec2:CreateSnapshot",
			"ec2:CreateTags"), removal))
}
