//go:build linux

package aws

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

type createImageIn struct {
	InstanceId, Name, Description string
	TagSpecification              []tagSpecification
}

type createdOut struct {
	ID string `xml:"imageId"`
}

// volume is an instance's disk in moto's form.
type volume struct {
	Size      int    `xml:"size"`
	Type      string `xml:"volumeType"`
	Encrypted bool   `xml:"encrypted"`
	KMSKey    string `xml:"kmsKeyId"`
}

// createImage captures the disk of a stopped instance. EC2 returns at once and
// the image stays pending for a while. Here the image is available when the
// call returns, because packer-plugin-amazon 1.8.2 polls only after 15 seconds,
// regardless of its configured delay. When the caller disconnects during the
// call, no image remains.
func (w *World) createImage(ctx context.Context, call endpoint.Call, in createImageIn) (createdOut, error) {
	source, disk, err := w.stopped(call.Region, in.InstanceId)
	if err != nil {
		return createdOut{}, err
	}
	w.mutex.Lock()
	err = w.free(call.Region, in.Name)
	base, missing := find(w.Images, call.Region, source, "InvalidAMIID.NotFound")
	m := w.running[w.names.in(in.InstanceId)]
	id := w.next("snap")
	w.mutex.Unlock()
	if err = errors.Join(err, missing); err != nil {
		return createdOut{}, err
	}
	file := filepath.Join(w.Folder, id+".raw")
	if m != nil {
		if err := m.Capture(ctx, file); err != nil {
			return createdOut{}, fmt.Errorf("creating an image of %s: %w", in.InstanceId, err)
		}
	}
	taken := &Snapshot{
		Region: call.Region, ID: id, State: "completed", Owner: Account, Size: disk.Size, Encrypted: disk.Encrypted, KMSKey: disk.KMSKey, Disk: Disk{Image: file},
	}
	made := *base
	made.Alias, made.Tags, made.Shares, made.Public, made.Deprecated = "", nil, nil, false, ""
	made.Description, made.SourceInstance, made.Disk = in.Description, in.InstanceId, taken.Disk
	made.Source, made.SourceRegion, made.Protection, made.Launched = source, call.Region, "", ""
	made.Devices = []Drive{{Name: made.RootDevice, Snapshot: id, Size: disk.Size, Type: disk.Type, Encrypted: disk.Encrypted}}
	if err := tagged(in.TagSpecification, &made, taken); err != nil {
		return createdOut{}, err
	}
	w.mutex.Lock()
	out := w.keep(call.Region, in.Name, made, taken)
	w.mutex.Unlock()
	if m == nil {
		return out, nil
	}
	return out, w.addBlocks(id, disk.Size, file)
}

// tagged adds the tags that a call gives an image and its snapshot.
func tagged(specifications []tagSpecification, made *Image, taken *Snapshot) error {
	for _, s := range specifications {
		switch s.ResourceType {
		case "image":
			made.Tags = append(made.Tags, s.Tag...)
		case "snapshot":
			taken.Tags = s.Tag
		default:
			return endpoint.Refuse("tags for %q", s.ResourceType)
		}
	}
	return nil
}

// addBlocks gives EBS the blocks of a snapshot.
func (w *World) addBlocks(id string, size int, file string) error {
	if w.ebs == nil {
		return nil
	}
	content, err := os.Open(file)
	if err != nil {
		return err
	}
	defer content.Close()
	return w.ebs.Add(ebsdirect.Snapshot{ID: id, Owner: Account, State: ebsdirect.Completed, Size: int64(size),
		Sparse: true}, content)
}

// keep adds an image of the caller's account, and its snapshot.
func (w *World) keep(region, name string, made Image, taken *Snapshot) createdOut {
	made.Region, made.ID, made.Owner, made.Name = region, w.next("ami"), Account, name
	made.Created = created()
	w.Snapshots, w.Images = append(w.Snapshots, taken), append(w.Images, &made)
	return createdOut{made.ID}
}

// created is the present time as EC2 writes it.
func created() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

func (w *World) stopped(region, id string) (image string, disk volume, err error) {
	var found struct {
		Image string `xml:"reservationSet>item>instancesSet>item>imageId"`
		State string `xml:"reservationSet>item>instancesSet>item>instanceState>name"`
	}
	text, err := w.try(region, "ec2:DescribeInstances", "InstanceId.1", id)
	if err == nil {
		err = xml.Unmarshal(text, &found)
	}
	if err != nil {
		return "", disk, err
	}
	if found.State != "stopped" {
		return "", disk, endpoint.Refuse("an image of an instance in state %s: only stopped instances can be captured", found.State)
	}
	var volumes struct {
		All []volume `xml:"volumeSet>item"`
	}
	text, err = w.try(region, "ec2:DescribeVolumes", "Filter.1.Name", "attachment.instance-id", "Filter.1.Value.1", id)
	if err == nil {
		err = xml.Unmarshal(text, &volumes)
	}
	if err == nil && len(volumes.All) != 1 {
		err = fmt.Errorf("%s has %d volumes", id, len(volumes.All))
	}
	if err != nil {
		return "", disk, err
	}
	return found.Image, volumes.All[0], nil
}

// free returns an error when an image may not have the name.
func (w *World) free(region, name string) error {
	if name == "" {
		return endpoint.Fail("MissingParameter", "The request must contain the parameter Name")
	}
	if left := region + " " + name; w.front.taken[left] > 0 {
		w.front.taken[left]--
		return endpoint.Fail("InvalidAMIName.Duplicate", "AMI name %s is already in use by AMI ami-00000000000000000", name)
	}
	for _, i := range w.Images {
		if i.Name == name && i.Owner == Account && (i.Region == region || i.Region == "") {
			return endpoint.Fail("InvalidAMIName.Duplicate", "AMI name %s is already in use by AMI %s", name, i.ID)
		}
	}
	return nil
}

type copyImageIn struct {
	Name, Description, SourceImageId, SourceRegion, KmsKeyId string
	Encrypted, CopyImageTags                                 bool
	// TagSpecification has the tags of the copy and of its snapshot.
	TagSpecification []tagSpecification
	// ClientToken makes a repeated call return the first copy.
	ClientToken string
}

// checkKey returns an error when a copy cannot be encrypted with its key.
// Nothing is really encrypted: the name of the key is kept and reported.
func (in copyImageIn) checkKey(region string) error {
	parts := strings.Split(in.KmsKeyId, ":")
	switch {
	case in.KmsKeyId != "" && !in.Encrypted:
		return endpoint.Fail("InvalidParameterDependency", "KmsKeyId is given, and Encrypted is not")
	case len(parts) > 3 && parts[3] != region:
		return endpoint.Fail("InvalidParameterValue", "The key %s is not of the region %s", in.KmsKeyId, region)
	}
	return nil
}

// copyImage copies an image to another region, or makes an encrypted copy in
// the same region. Both images share one disk.
func (w *World) copyImage(region string, in copyImageIn) (createdOut, error) {
	if made := w.copies[region+" "+in.ClientToken]; in.ClientToken != "" && made != "" {
		return createdOut{made}, nil
	}
	source, err := w.ownImage(in.SourceRegion, in.SourceImageId)
	if err := errors.Join(err, w.free(region, in.Name), in.checkKey(region)); err != nil {
		return createdOut{}, err
	}
	drive := source.Devices[0]
	root, err := find(w.Snapshots, in.SourceRegion, drive.Snapshot, "InvalidSnapshot.NotFound")
	if err != nil {
		return createdOut{}, err
	}
	taken, made := *root, *source
	taken.Region, taken.ID, taken.Shares, taken.Tags = region, w.next("snap"), nil, nil
	taken.Encrypted, taken.KMSKey = taken.Encrypted || in.Encrypted, in.KmsKeyId
	drive.Snapshot, drive.Encrypted = taken.ID, taken.Encrypted
	made.Devices, made.Shares, made.Public, made.Deprecated, made.Description = []Drive{drive}, nil, false, "", in.Description
	made.Source, made.SourceRegion, made.SourceInstance, made.Protection, made.Launched = in.SourceImageId,
		in.SourceRegion, "", "", ""
	if !in.CopyImageTags {
		made.Tags = nil
	}
	if err := tagged(in.TagSpecification, &made, &taken); err != nil {
		return createdOut{}, err
	}
	out := w.keep(region, in.Name, made, &taken)
	taken.Description = fmt.Sprintf("Copied for DestinationAmi %s from SourceAmi %s for SourceSnapshot %s. "+
		"Task created on 1,506,088,876,862.", out.ID, in.SourceImageId, root.ID)
	w.born(w.Images[len(w.Images)-1])
	w.born(&taken)
	w.copies[region+" "+in.ClientToken] = out.ID
	return out, nil
}
