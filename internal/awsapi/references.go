package awsapi

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// References are the uses of the account's images in its region.
type References struct {
	aws    *AWS
	images []Image
	// users are the users of each image, by image ID.
	users map[string][]string
	// unseen are the errors of lists that could not be read. Such a list may refer
	// to any image.
	unseen []error
	// unseenOf are the errors of single images.
	unseenOf map[string][]error
	// gone are deregistered images that EC2 still lists.
	gone []string
	// snapshots are the images and accounts that use each snapshot.
	snapshots map[string][]string
	// since is when a launch counts as a use.
	since time.Time
	// templates are the versions of launch templates in use.
	templates []templateUse
	// parameters are the parameters in launch templates that could be read.
	parameters map[string]string
}

var imageIDs = regexp.MustCompile(`\bami-[0-9a-f]{8,17}\b`)

// References searches the region for everything that refers to images. A launch of an
// instance counts as a use after the time since. After a failed search, References.Of
// returns an error.
func (a *AWS) References(ctx context.Context, images []Image, since time.Time) *References {
	r := &References{
		aws: a, images: images, since: since, users: map[string][]string{}, unseenOf: map[string][]error{},
		snapshots: map[string][]string{}, parameters: map[string]string{},
	}
	for _, look := range []func(context.Context) error{
		r.instances, r.spotRequests, r.inParameters, r.groups, r.configurations, r.nodeGroups, r.fleets, r.spotFleets,
		r.launchTemplates, r.otherImages,
	} {
		if err := look(ctx); err != nil {
			r.unseen = append(r.unseen, err)
		}
	}
	for _, i := range images {
		if i.Protection != "" && i.Protection != "disabled" {
			r.use(i.ID, "its deregistration protection ("+i.Protection+")")
		}
		err := r.permissions(ctx, i)
		if IsGone(err) && len(r.users[i.ID]) == 0 {
			r.gone = append(r.gone, i.ID)
			continue
		}
		if err := errors.Join(err, r.launched(ctx, i), r.sharedSnapshots(ctx, i)); err != nil {
			r.unseenOf[i.ID] = append(r.unseenOf[i.ID], err)
		}
	}
	return r
}

// Gone says that an image was deregistered, although EC2 still lists it for a while.
func (r *References) Gone(image string) bool { return slices.Contains(r.gone, image) }

// Of returns the users of an image. It returns an error when a search failed,
// because then an image may have unknown users.
func (r *References) Of(image string) ([]string, error) {
	users := slices.Clone(r.users[image])
	slices.Sort(users)
	return slices.Compact(users), errors.Join(r.unseenOf[image]...)
}

// Unseen returns the errors of searches that concern any image.
func (r *References) Unseen() error { return errors.Join(r.unseen...) }

// use records a user of the images in a text.
func (r *References) use(text, who string) {
	for _, id := range imageIDs.FindAllString(text, -1) {
		r.users[id] = append(r.users[id], who)
	}
}

func (r *References) instances(ctx context.Context) error {
	for some := range slices.Chunk(r.images, 100) { // EC2 accepts 200 values
		ids := show.Each(some, func(i Image) string { return i.ID })
		if err := r.instancesOf(ctx, types.Filter{Name: aws.String("image-id"), Values: ids}); err != nil {
			return err
		}
	}
	return nil
}

func (r *References) instancesOf(ctx context.Context, filters ...types.Filter) error {
	pages := ec2.NewDescribeInstancesPaginator(r.aws.ec2, &ec2.DescribeInstancesInput{Filters: filters})
	return look(ctx, "listing the instances", pages, func(reservation types.Reservation) {
		for _, i := range reservation.Instances {
			if state, _ := stateOf(i); state != string(types.InstanceStateNameTerminated) {
				r.use(aws.ToString(i.ImageId), strings.TrimSpace(fmt.Sprintf("the instance %s %s",
					aws.ToString(i.InstanceId), state)))
			}
		}
	})
}

// spotRequests records Spot requests: open ones start instances again.
func (r *References) spotRequests(ctx context.Context) error {
	pages := ec2.NewDescribeSpotInstanceRequestsPaginator(r.aws.ec2, &ec2.DescribeSpotInstanceRequestsInput{})
	return look(ctx, "listing the Spot requests", pages, func(s types.SpotInstanceRequest) {
		ended := s.State == types.SpotInstanceStateClosed || s.State == types.SpotInstanceStateCancelled ||
			s.State == types.SpotInstanceStateFailed
		if s.LaunchSpecification != nil && !ended {
			r.use(aws.ToString(s.LaunchSpecification.ImageId),
				"the Spot request "+aws.ToString(s.SpotInstanceRequestId))
		}
	})
}

// permissions records the accounts that an image is shared with.
func (r *References) permissions(ctx context.Context, i Image) error {
	out, err := r.aws.attribute(ctx, "reading the launch permissions of "+i.ID, i.ID,
		types.ImageAttributeNameLaunchPermission)
	if err != nil {
		return err
	}
	for _, p := range out.LaunchPermissions {
		switch {
		case p.Group != "":
			r.use(i.ID, "a launch permission for "+string(p.Group))
		case p.OrganizationArn != nil:
			r.use(i.ID, "a launch permission for "+*p.OrganizationArn)
		case p.OrganizationalUnitArn != nil:
			r.use(i.ID, "a launch permission for "+*p.OrganizationalUnitArn)
		case aws.ToString(p.UserId) != i.Owner:
			r.use(i.ID, "a launch permission for the account "+aws.ToString(p.UserId))
		}
	}
	return nil
}

// launched records the last launch of an instance, in any account. EC2 knows the time
// after a day
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ami-last-launched-time.html).
func (r *References) launched(ctx context.Context, i Image) error {
	doing := "reading the last launch of " + i.ID
	out, err := r.aws.attribute(ctx, doing, i.ID, types.ImageAttributeNameLastLaunchedTime)
	if err != nil {
		return err
	}
	if out.LastLaunchedTime == nil || slices.Contains([]string{"", "N/A"}, aws.ToString(out.LastLaunchedTime.Value)) {
		return nil // never, or before EC2 kept the time
	}
	at := instant(out.LastLaunchedTime.Value)
	if at.IsZero() {
		return errIncomplete(doing, "valid time")
	}
	if at.After(r.since) {
		r.use(i.ID, "an instance that was launched on "+at.Format(time.DateOnly)+" in this or another account")
	}
	return nil
}

// otherImages records the snapshots of all images, also deprecated and disabled
// ones.
func (r *References) otherImages(ctx context.Context) error {
	images, err := r.aws.ownImages(ctx, listingImages)
	for _, i := range images {
		for _, s := range i.Snapshots {
			r.snapshots[s] = append(r.snapshots[s], i.ID)
		}
	}
	return err
}

// sharedSnapshots records the accounts that an image's snapshots are shared with.
func (r *References) sharedSnapshots(ctx context.Context, i Image) error {
	var errs []error
	for _, s := range i.Snapshots {
		users, err := r.aws.SharedWith(ctx, s, i.Owner)
		r.snapshots[s], errs = append(r.snapshots[s], users...), append(errs, err)
	}
	return errors.Join(errs...)
}

// Leave divides an image's snapshots, for when the image is deregistered: the free
// ones, and the others with their users.
func (r *References) Leave(i Image) (free []string, kept map[string][]string) {
	kept = map[string][]string{}
	for _, s := range i.Snapshots {
		users := slices.DeleteFunc(r.snapshots[s], func(user string) bool { return user == i.ID })
		r.snapshots[s] = users
		switch {
		case len(users) > 0:
			kept[s] = users
		case !slices.Contains(free, s):
			free = append(free, s)
		}
	}
	return free, kept
}
