package awsapi

import (
	"errors"
	"fmt"
	"strings"

	ebstypes "github.com/aws/aws-sdk-go-v2/service/ebs/types"
)

// RootDisk returns the root volume of an image, and the other volumes that come from
// snapshots. The error says why the image has no snapshot of its root volume.
func (i Image) RootDisk() (root BlockDevice, others []BlockDevice, err error) {
	doing := "finding the root volume of the image " + i.ID
	switch {
	case i.State == "pending":
		return root, nil, fmt.Errorf("%s: the image is pending; wait for it: aws ec2 wait image-available --region %s --image-ids %[3]s", doing, i.Region, i.ID)
	case i.State != "available" && i.State != "disabled":
		reason := ""
		if i.StateReason != "" {
			reason = ": " + i.StateReason
		}
		return root, nil, fmt.Errorf("%s: the state of the image is %s%s", doing, i.State, reason)
	case i.RootType != "ebs":
		return root, nil, fmt.Errorf("%s: the root volume of the image is on %s, not on EBS, so there is no snapshot of it", doing, i.RootType)
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
		return fmt.Errorf("reading the snapshot %s: the snapshot is on the Outpost %s, where the EBS direct APIs cannot read; snapshots on Outposts cannot be copied to a Region either, so make the snapshot in the Region", s.ID, s.Outpost)
	case s.Archived:
		return fmt.Errorf("reading the snapshot %s: the snapshot is archived; restore it, which takes up to 72 hours: aws ec2 restore-snapshot-tier --region %s --snapshot-id %[1]s --temporary-restore-days 1", s.ID, region)
	case s.State == SnapshotPending:
		return fmt.Errorf("reading the snapshot %s: the snapshot is pending (%s), and only a completed one can be read; wait for it: aws ec2 wait snapshot-completed --region %s --snapshot-ids %[1]s", s.ID, s.progress(), region)
	case s.State != SnapshotCompleted:
		return fmt.Errorf("reading the snapshot %s: the state of the snapshot is %s, and only a completed one can be read%s", s.ID, s.State, said)
	}
	return nil
}

func (s Snapshot) progress() string {
	if s.Progress == "" {
		return "0%"
	}
	return s.Progress
}

// RefusedSnapshot adds to an error of the EBS direct APIs what to do about the snapshot.
// Account is the caller's.
func RefusedSnapshot(err error, s Snapshot, region, account string) error {
	copying := fmt.Sprintf("aws ec2 copy-snapshot --region %s --source-region %[1]s --source-snapshot-id %s", region, s.ID)
	var api *APIError
	var denied *DeniedError
	refused := errors.As(err, &denied)
	if errors.As(err, &api) {
		refused = refused || IsNotFound(err) || api.Reason == string(ebstypes.ValidationExceptionReasonInvalidSnapshotId)
	}
	switch {
	case !refused:
		return err
	case account != "" && s.Owner != account:
		return fmt.Errorf("%w; the snapshot belongs to the account %s: copy it into yours first, and name the copy: %s", err, s.Owner, copying)
	case denied != nil && s.Encrypted && !strings.Contains(err.Error(), "kms:Decrypt"):
		return fmt.Errorf("%w; the snapshot is encrypted, so the caller also needs kms:Decrypt for the key %s", err, s.Key)
	case denied == nil && api.Reason != "":
		return fmt.Errorf("%w; the EBS direct APIs cannot read public snapshots: if this one is public, copy it first, and name the copy: %s", err, copying)
	}
	return err
}

// IsGone says that EC2 does not show a resource: there is none with the ID in the
// region, or none that the account may see.
func IsGone(err error) bool {
	var api *APIError
	return IsNotFound(err) || errors.As(err, &api) && api.Code == "InvalidAMIID.Unavailable"
}
