package ec2

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

type createImageIn struct {
	Instance       string             `query:"InstanceId"`
	Name           string             `query:"Name"`
	Description    string             `query:"Description"`
	Specifications []tagSpecification `query:"TagSpecification"`
}

type imageID struct {
	ID string `xml:"imageId"`
}

// createImage captures the disk of a stopped instance. EC2 answers at once and
// leaves the image pending; here it is there when the call is answered, because
// packer-plugin-amazon 1.8.2 looks again only after 15 seconds, whatever delay it
// is told. A caller who goes away meanwhile leaves nothing.
func (d *Double) createImage(ctx context.Context, call endpoint.Call, in createImageIn) (imageID, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if err := d.checkRegion(call.Region); err != nil {
		return imageID{}, err
	}
	source, err := find(d.instances, call.Region, in.Instance, "InvalidInstanceID.NotFound")
	if err != nil {
		return imageID{}, err
	}
	d.observe()
	tags, err := tagsFor(in.Specifications, "image", "snapshot")
	if err != nil {
		return imageID{}, err
	}
	if err := d.checkImageName(call.Region, in.Name); err != nil {
		return imageID{}, err
	}
	if source.state != stopped {
		return imageID{}, endpoint.Refuse("an image of an instance that is %s: it captures stopped ones", source.state)
	}
	id := place{call.Region, d.next("snap")}
	file := filepath.Join(d.config.Folder, id.id+".raw")
	if err := d.capture(ctx, source, file); err != nil {
		return imageID{}, err
	}
	taken := &snapshot{
		place: id, owner: d.config.Account, volume: source.volume.id, disk: Disk{Image: file}, size: *source.volume.spec.Size,
		encrypted: *source.volume.spec.Encrypted, key: orElse(source.volume.spec.KMSKey, ""), created: time.Now(), description: "Created by CreateImage(" + source.id + ")",
	}
	made := *source.image
	made.place, made.owner, made.name, made.description = place{call.Region, d.next("ami")}, d.config.Account, in.Name, in.Description
	made.snapshot, made.source, made.created, made.shared = taken, source.id, time.Now(), nil
	made.volumeType, made.deprecated = *source.volume.spec.Type, ""
	d.snapshots, d.images = append(d.snapshots, taken), append(d.images, &made)
	d.tag(taken.id, tags["snapshot"])
	d.tag(made.id, tags["image"])
	return imageID{made.id}, nil
}

// capture writes the disk of an instance to a file. It lets go of the double's
// lock meanwhile; the instance cannot end before it is done.
func (d *Double) capture(ctx context.Context, source *instance, file string) error {
	d.mutex.Unlock()
	defer d.mutex.Lock()
	source.operation.Lock()
	defer source.operation.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	if source.machine == nil {
		return endpoint.Fail("InvalidInstanceID.NotFound", "the instance ID '%s' does not exist", source.id)
	}
	if err := source.machine.Capture(ctx, file); err != nil {
		return fmt.Errorf("creating an image of %s: %w", source.id, err)
	}
	return nil
}

func (d *Double) checkImageName(region, name string) error {
	if name == "" {
		return endpoint.Fail("MissingParameter", "the request must contain the parameter Name")
	}
	taken := slices.IndexFunc(d.images, func(i *image) bool {
		return i.region == region && i.name == name && i.owner == d.config.Account
	})
	if taken >= 0 {
		return endpoint.Fail("InvalidAMIName.Duplicate", "AMI name %s is already in use by AMI %s", name, d.images[taken].id)
	}
	return nil
}

type copyImageIn struct {
	Name         string `query:"Name"`
	Description  string `query:"Description"`
	SourceID     string `query:"SourceImageId"`
	SourceRegion string `query:"SourceRegion"`
	Encrypted    *bool  `query:"Encrypted"`
	KMSKey       string `query:"KmsKeyId"`
	CopyTags     bool   `query:"CopyImageTags"`
	// A copy is made by the time the call is answered: a repeated call finds the
	// name taken.
	ClientToken string `query:"ClientToken"`
}

// checkKey looks whether a copy may be encrypted with its key. Nothing is: the
// double keeps the key's name and reports it.
func (in copyImageIn) checkKey(region string) error {
	switch {
	case in.KMSKey == "":
		return nil
	case !orElse(in.Encrypted, false):
		return endpoint.Fail("InvalidParameterDependency", "KmsKeyId is given, and Encrypted is not")
	}
	if parts := strings.Split(in.KMSKey, ":"); len(parts) > 3 && parts[3] != region {
		return endpoint.Fail("InvalidParameterValue", "the key %s is not of the region %s", in.KMSKey, region)
	}
	return nil
}

// copyImage makes an image in another region, or an encrypted one in the same.
// Both are of the same disk.
func (d *Double) copyImage(region string, in copyImageIn) (imageID, error) {
	source, err := find(d.images, in.SourceRegion, in.SourceID, "InvalidAMIID.NotFound")
	if err != nil {
		return imageID{}, err
	}
	if err := d.checkImageName(region, in.Name); err != nil {
		return imageID{}, err
	}
	if err := in.checkKey(region); err != nil {
		return imageID{}, err
	}
	root := *source.snapshot
	root.place, root.owner, root.created, root.shared = place{region, d.next("snap")}, d.config.Account, time.Now(), nil
	root.encrypted, root.key = root.encrypted || orElse(in.Encrypted, false), in.KMSKey
	made := *source
	made.place, made.owner, made.name, made.description = place{region, d.next("ami")}, d.config.Account, in.Name, in.Description
	made.snapshot, made.created, made.shared, made.deprecated = &root, time.Now(), nil, ""
	d.snapshots, d.images = append(d.snapshots, &root), append(d.images, &made)
	if in.CopyTags {
		d.tag(made.id, d.tags[source.id])
	}
	return imageID{made.id}, nil
}
