//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// cloudDisk names an AMI or a snapshot whose disk a command reads.
type cloudDisk struct {
	// region is the region of REGION:ID, or empty.
	region string
	// id is the ID of an AMI or a snapshot, or an AMI's parameter.
	id string
}

var withRegion = regexp.MustCompile(`^([a-z0-9-]+):((?:ami|snap)-.*)$`)

// parseCloudAMI checks the name of an AMI, with or without its region.
func parseCloudAMI(text string) (cloudDisk, error) {
	return parseCloudDisk(text, awsnames.Image)
}

// parseCloudSnapshot checks the name of a snapshot, with or without its region.
func parseCloudSnapshot(text string) (cloudDisk, error) {
	return parseCloudDisk(text, awsnames.SnapshotID().Check)
}

// parseCloudDisk splits REGION:ID. The region may be left out.
func parseCloudDisk(text string, check func(string) error) (cloudDisk, error) {
	parts := withRegion.FindStringSubmatch(text)
	if parts == nil {
		return cloudDisk{id: text}, check(text)
	}
	return cloudDisk{parts[1], parts[2]}, errors.Join(awsnames.Region().Check(parts[1]), check(parts[2]))
}

// isSnapshot says whether the disk is that of a snapshot.
func (c cloudDisk) isSnapshot() bool { return strings.HasPrefix(c.id, "snap-") }

// open connects to the region of the disk, or to that of the flags.
func (c cloudDisk) open(ctx context.Context, o awsapi.Options) (*awsapi.AWS, error) {
	if c.region != "" && o.Region != "" && c.region != o.Region {
		return nil, fmt.Errorf("--region %s: %s:%s is in another region; leave one of them out", o.Region, c.region, c.id)
	}
	if o.Region == "" {
		o.Region = c.region
	}
	return awsapi.Open(ctx, o)
}

// rootVolume is the snapshot of the root volume of an AMI, or a snapshot by itself.
type rootVolume struct {
	aws      *awsapi.AWS
	snapshot string
	// image is the AMI, or has no ID.
	image  awsapi.Image
	others []awsapi.BlockDevice
}

// find finds the snapshot with the disk.
func (c cloudDisk) find(ctx context.Context, a *awsapi.AWS) (rootVolume, error) {
	if c.isSnapshot() {
		return rootVolume{aws: a, snapshot: c.id}, nil
	}
	i, err := a.Image(ctx, c.id)
	if awsapi.IsGone(err) {
		err = fmt.Errorf("%w; %s has no such AMI that this account may see: name another region with --region, or the snapshot of a deregistered AMI", err, a.Region)
	}
	if err != nil {
		return rootVolume{}, err
	}
	root, others, err := i.RootDisk()
	return rootVolume{a, root.Snapshot, i, others}, err
}

// explain adds what to do to an error about the snapshot. Flag names the option that
// chooses where the disk is written.
func (r rootVolume) explain(err error, flag string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w; make space, or choose another folder with %s", err, flag)
	case !awsapi.IsGone(err):
		return err
	case r.image.ID == "":
		return fmt.Errorf("%w; %s has no such snapshot that this account may see: name another region with --region", err, r.aws.Region)
	}
	return fmt.Errorf("%w; the image %s belongs to the account %s, and its snapshot is deleted or not shared with yours: copy the image first, and name the copy: aws ec2 copy-image --region %s --source-region %[4]s --source-image-id %[2]s --name NAME",
		err, r.image.ID, r.image.Owner, r.aws.Region)
}

// String describes the disk.
func (r rootVolume) String() string {
	if r.image.ID == "" {
		return fmt.Sprintf("the snapshot %s in %s", r.snapshot, r.aws.Region)
	}
	return fmt.Sprintf("the root volume %s of %s (%s in %s)", r.image.RootDevice, r.image.ID, r.snapshot, r.aws.Region)
}

// diskCache is the cache of the disks of snapshots, below the folder for downloads.
func diskCache(local provisioner.Local, m *meter, say func(format string, args ...any)) (snapshot.Cache, error) {
	folder, err := local.Cache()
	if err != nil {
		return snapshot.Cache{}, err
	}
	return snapshot.Cache{Folder: filepath.Join(folder, "snapshots"), Download: snapshot.Download{Progress: m.upload}, Say: say}, nil
}
