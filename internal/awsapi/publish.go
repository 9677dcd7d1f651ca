package awsapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ebstypes "github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// Deprecate marks an image as deprecated from a time on.
func (a *AWS) Deprecate(ctx context.Context, image string, at time.Time) error {
	return a.settled(ctx, func() error {
		_, err := a.ec2.EnableImageDeprecation(ctx, &ec2.EnableImageDeprecationInput{ImageId: aws.String(image),
			DeprecateAt: aws.Time(at)})
		return explain("deprecating the image "+image, err)
	})
}

// Deregister deregisters an image. Its snapshots stay.
func (a *AWS) Deregister(ctx context.Context, image string) error {
	return a.settled(ctx, func() error {
		_, err := a.ec2.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: aws.String(image)})
		return explain("deregistering the image "+image, err)
	})
}

// Publish writes an image ID to an SSM parameter, which EC2 accepts in place of an
// ID. SSM checks the ID before the parameter changes; Publish waits for that.
func (a *AWS) Publish(ctx context.Context, parameter, image string) error {
	i, err := a.Image(ctx, image)
	if err != nil {
		return err
	}
	if i.State != "available" {
		return fmt.Errorf("publishing the image %s: the image is %s", image, i.State)
	}
	// SSM keeps 100 versions, and each write makes one.
	if has, err := a.hasImage(ctx, parameter, image); err != nil || has {
		return err
	}
	doing := "putting " + image + " into the parameter " + parameter
	_, err = a.ssm.PutParameter(ctx, &ssm.PutParameterInput{
		Name: aws.String(parameter), Value: aws.String(image), Type: types.ParameterTypeString,
		DataType: aws.String(imageType), Overwrite: aws.Bool(true),
	})
	if err != nil {
		return explain(doing, err)
	}
	unchanged := fmt.Errorf("%s: the parameter did not change within five minutes; SSM refuses image IDs that it "+
		"cannot describe", doing)
	return a.until(ctx, unchanged, func() (bool, error) { return a.hasImage(ctx, parameter, image) })
}

// imageType is the data type of parameters that EC2 accepts in place of an image ID.
const imageType = "aws:ec2:image"

// hasImage says whether a parameter has an image ID and EC2's data type already.
func (a *AWS) hasImage(ctx context.Context, name, image string) (bool, error) {
	p, err := a.parameter(ctx, name)
	if IsNotFound(err) {
		err = nil
	}
	return aws.ToString(p.Value) == image && aws.ToString(p.DataType) == imageType, err
}

// RootDisk returns the root volume of an image, and the other volumes that come from
// snapshots. The error says why the image has no snapshot of its root volume.
func (i Image) RootDisk() (root BlockDevice, others []BlockDevice, err error) {
	doing := "finding the root volume of the image " + i.ID
	switch {
	case i.State == "pending":
		return root, nil, fmt.Errorf("%s: the image is pending; wait for it: aws ec2 wait image-available --region "+
			"%s --image-ids %[3]s", doing, i.Region, i.ID)
	case i.State != "available" && i.State != "disabled":
		reason := ""
		if i.StateReason != "" {
			reason = ": " + i.StateReason
		}
		return root, nil, fmt.Errorf("%s: the state of the image is %s%s", doing, i.State, reason)
	case i.RootType != "ebs":
		return root, nil, fmt.Errorf("%s: the root volume of the image is on %s, not on EBS, so there is no "+
			"snapshot of it", doing, i.RootType)
	}
	for _, d := range i.Devices {
		switch {
		case d.Name == i.RootDevice:
			root = d
		case d.Snapshot != "":
			others = append(others, d)
		}
	}
	if root.Snapshot == "" {
		return root, nil, fmt.Errorf("%s: the image has no snapshot of its root device %s", doing, i.RootDevice)
	}
	return root, others, nil
}

// Readable returns an error when the EBS direct APIs cannot read a snapshot
// (https://docs.aws.amazon.com/ebs/latest/userguide/ebsapi-faq.html and
// https://docs.aws.amazon.com/ebs/latest/userguide/readsnapshots.html).
func (s Snapshot) Readable(region string) error {
	said := ""
	if s.Said != "" {
		said = ": " + s.Said
	}
	switch {
	case s.Outpost != "":
		return fmt.Errorf("reading the snapshot %s: the snapshot is on the Outpost %s, where the EBS direct APIs "+
			"cannot read; snapshots on Outposts cannot be copied to a Region either, so make the snapshot in "+
			"the Region", s.ID, s.Outpost)
	case s.Archived:
		return fmt.Errorf("reading the snapshot %s: the snapshot is archived; restore it, which takes up to 72 "+
			"hours: aws ec2 restore-snapshot-tier --region %s --snapshot-id %[1]s --temporary-restore-days 1", s.ID,
			region)
	case s.State == SnapshotPending:
		return fmt.Errorf("reading the snapshot %s: the snapshot is pending (%s), and only a completed one can be "+
			"read; wait for it: aws ec2 wait snapshot-completed --region %s --snapshot-ids %[1]s", s.ID,
			cmp.Or(s.Progress, "0%"), region)
	case s.State != SnapshotCompleted:
		return fmt.Errorf("reading the snapshot %s: the state of the snapshot is %s, and only a completed one can "+
			"be read%s", s.ID, s.State, said)
	}
	return nil
}

// RefusedSnapshot adds to an error of the EBS direct APIs what to do about the snapshot.
// Account is the caller's.
func RefusedSnapshot(err error, s Snapshot, region, account string) error {
	copying := fmt.Sprintf("aws ec2 copy-snapshot --region %s --source-region %[1]s --source-snapshot-id %s", region,
		s.ID)
	var denied *DeniedError
	invalid := isReason(err, ebstypes.ValidationExceptionReasonInvalidSnapshotId)
	foreign := isReason(err, ebstypes.AccessDeniedExceptionReasonUnauthorizedAccount)
	switch {
	case !errors.As(err, &denied) && !IsNotFound(err) && !invalid && !foreign:
		return err
	case account != "" && s.Owner != account:
		return fmt.Errorf("%w; the snapshot belongs to the account %s: copy it into yours first, and name the copy: %s",
			err, s.Owner, copying)
	case denied != nil && s.Encrypted && !strings.Contains(err.Error(), "kms:Decrypt"):
		return fmt.Errorf("%w; the snapshot is encrypted, so the caller also needs kms:Decrypt for the key %s", err,
			s.Key)
	case invalid:
		return fmt.Errorf("%w; the EBS direct APIs cannot read public snapshots: if this one is public, copy it "+
			"first, and name the copy: %s", err, copying)
	}
	return err
}

// IsGone says that EC2 does not show a resource: there is none with the ID in the
// region, or none that the account may see.
func IsGone(err error) bool {
	return IsNotFound(err) || hasCode(err, "InvalidAMIID.Unavailable")
}

// inParameters searches the values of the account's SSM parameters for images. It
// skips parameters of type SecureString: they are secrets.
func (r *References) inParameters(ctx context.Context) error {
	var names []string
	images := map[string]bool{} // images of parameters with the data type for images
	pages := ssm.NewDescribeParametersPaginator(r.aws.ssm, &ssm.DescribeParametersInput{
		ParameterFilters: []types.ParameterStringFilter{{Key: aws.String("Type"), Option: aws.String("Equals"),
			Values: []string{"String", "StringList"}}},
	})
	err := look(ctx, "listing the SSM parameters", pages, func(p types.ParameterMetadata) {
		names = append(names, aws.ToString(p.Name))
		images[aws.ToString(p.Name)] = aws.ToString(p.DataType) == imageType
	})
	if err != nil {
		return err
	}
	for some := range slices.Chunk(names, 10) { // SSM's maximum
		out, err := r.aws.ssm.GetParameters(ctx, &ssm.GetParametersInput{Names: some})
		if err != nil {
			return explain("reading the SSM parameters", err)
		}
		for _, p := range out.Parameters {
			name, value := aws.ToString(p.Name), aws.ToString(p.Value)
			r.use(value, "the SSM parameter "+name)
			images[name] = images[name] || imageIDs.MatchString(value)
		}
	}
	for _, name := range names {
		if images[name] {
			if err := r.labels(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// labels searches the labelled versions of a parameter, which launch templates and
// programs may name.
func (r *References) labels(ctx context.Context, name string) error {
	pages := ssm.NewGetParameterHistoryPaginator(r.aws.ssm, &ssm.GetParameterHistoryInput{Name: aws.String(name)})
	return look(ctx, "reading the versions of the SSM parameter "+name, pages, func(v types.ParameterHistory) {
		if len(v.Labels) > 0 {
			r.use(aws.ToString(v.Value), fmt.Sprintf("the SSM parameter %s, version %d with the label %s", name,
				v.Version, strings.Join(v.Labels, ", ")))
		}
	})
}
