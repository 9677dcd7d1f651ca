package ec2

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// image is what instances are launched from.
type image struct {
	place
	owner, name, description string
	architecture, rootDevice string
	user                     string // whom its instances let in
	snapshot                 *snapshot
	source                   string // the instance it was made of
	created                  time.Time
	deprecated               string
	imds                     string
	volumeType               string
	shared                   []string // accounts, and "all"
}

// baseSize is the size in GiB that the images of others say their volumes have.
const baseSize = 2

func (d *Double) addBase(region string, base BaseImage) {
	root := &snapshot{
		place: place{region, d.next("snap")}, owner: base.Owner, disk: base.Disk, size: baseSize, created: base.Created,
	}
	d.snapshots = append(d.snapshots, root)
	d.images = append(d.images, &image{
		place: place{region, d.next("ami")}, owner: base.Owner, name: base.Name, user: base.User,
		architecture: cmp.Or(base.Architecture, "x86_64"), rootDevice: cmp.Or(base.RootDevice, "/dev/xvda"),
		snapshot: root, created: base.Created, volumeType: "gp3", shared: []string{"all"},
	})
}

type describeImagesIn struct {
	IDs     []string `query:"ImageId"`
	Owners  []string `query:"Owner"`
	Filters []filter `query:"Filter"`
	// The double deprecates only the caller's own images, which are always shown.
	IncludeDeprecated bool `query:"IncludeDeprecated"`
}

// Image is an AMI.
type Image struct {
	ID             string  `xml:"imageId"`
	Location       string  `xml:"imageLocation"`
	State          string  `xml:"imageState"`
	Owner          string  `xml:"imageOwnerId"`
	Created        string  `xml:"creationDate"`
	Public         bool    `xml:"isPublic"`
	Architecture   string  `xml:"architecture"`
	Type           string  `xml:"imageType"`
	Name           string  `xml:"name"`
	Description    string  `xml:"description,omitempty"`
	RootDeviceType string  `xml:"rootDeviceType"`
	RootDevice     string  `xml:"rootDeviceName"`
	Devices        []Drive `xml:"blockDeviceMapping>item"`
	Virtualization string  `xml:"virtualizationType"`
	Hypervisor     string  `xml:"hypervisor"`
	ENA            bool    `xml:"enaSupport"`
	IMDS           string  `xml:"imdsSupport,omitempty"`
	Deprecated     string  `xml:"deprecationTime,omitempty"`
	SourceInstance string  `xml:"sourceInstanceId,omitempty"`
	Tags           []Tag   `xml:"tagSet>item"`
}

// Drive is a device of an image.
type Drive struct {
	Device              string `xml:"deviceName"`
	Snapshot            string `xml:"ebs>snapshotId"`
	Size                int    `xml:"ebs>volumeSize"`
	Type                string `xml:"ebs>volumeType"`
	Encrypted           bool   `xml:"ebs>encrypted"`
	DeleteOnTermination bool   `xml:"ebs>deleteOnTermination"`
}

type describeImagesOut struct {
	Images []Image `xml:"imagesSet>item"`
}

func (d *Double) describeImages(region string, in describeImagesIn) (describeImagesOut, error) {
	var out describeImagesOut
	chosen, err := selected(inRegion(d.images, region), in.IDs, "InvalidAMIID.NotFound",
		func(i *image) string { return i.id },
		func(i *image) (bool, error) {
			if !d.ownedBy(i.owner, in.Owners) {
				return false, nil
			}
			return matches(in.Filters, i.attributes(), d.tags[i.id])
		})
	for _, image := range chosen {
		out.Images = append(out.Images, d.shapeImage(image))
	}
	return out, err
}

// attributes are what an image can be found by.
func (i *image) attributes() map[string]string {
	return map[string]string{
		"image-id": i.id, "name": i.name, "owner-id": i.owner, "description": i.description,
		"architecture": i.architecture, "root-device-name": i.rootDevice, "root-device-type": "ebs",
		"virtualization-type": "hvm", "image-type": "machine", "state": "available", "ena-support": "true",
		"is-public": strconv.FormatBool(slices.Contains(i.shared, "all")),
	}
}

func (d *Double) shapeImage(i *image) Image {
	return Image{
		ID: i.id, Location: i.owner + "/" + i.name, State: "available", Owner: i.owner, Created: timestamp(i.created),
		Public: slices.Contains(i.shared, "all"), Architecture: i.architecture, Type: "machine", Name: i.name,
		Description: i.description, RootDeviceType: "ebs", RootDevice: i.rootDevice,
		Virtualization: "hvm", Hypervisor: "xen", ENA: true, IMDS: i.imds, Deprecated: i.deprecated,
		SourceInstance: i.source, Tags: d.tags[i.id],
		Devices: []Drive{{
			Device: i.rootDevice, Snapshot: i.snapshot.id, Size: i.snapshot.size, Type: i.volumeType,
			Encrypted: i.snapshot.encrypted, DeleteOnTermination: true,
		}},
	}
}

type enableImageDeprecationIn struct {
	ID string `query:"ImageId"`
	At string `query:"DeprecateAt"`
}

func (d *Double) enableImageDeprecation(region string, in enableImageDeprecationIn) (done, error) {
	changed, err := d.ownImage(region, in.ID)
	if err != nil {
		return done{}, err
	}
	changed.deprecated = in.At
	return done{Return: true}, nil
}

// ownImage answers an image that the caller may change.
func (d *Double) ownImage(region, id string) (*image, error) {
	own, err := find(d.images, region, id, "InvalidAMIID.NotFound")
	if err == nil && own.owner != d.config.Account {
		return nil, endpoint.Fail("AuthFailure", "not authorized for image:%s", id)
	}
	return own, err
}

type attributeValue struct {
	Value string `query:"Value"`
}

// modifyImageIn has one of its fields besides the first, but for LaunchPermission
// and its older forms.
type modifyImageIn struct {
	ID          string          `query:"ImageId"`
	Description *attributeValue `query:"Description"`
	IMDS        *attributeValue `query:"ImdsSupport"`
	Permission  struct {
		Add []struct {
			Group   string `query:"Group"`
			Account string `query:"UserId"`
		} `query:"Add"`
	} `query:"LaunchPermission"`
	Groups   []string `query:"UserGroup"`
	Accounts []string `query:"UserId"`
}

func (d *Double) modifyImage(region string, in modifyImageIn) (done, error) {
	changed, err := d.ownImage(region, in.ID)
	if err != nil {
		return done{}, err
	}
	if in.Description != nil {
		changed.description = in.Description.Value
	}
	if in.IMDS != nil {
		if in.IMDS.Value != "v2.0" {
			return done{}, endpoint.Fail("InvalidParameterValue", "imdsSupport '%s'", in.IMDS.Value)
		}
		changed.imds = in.IMDS.Value
	}
	for _, permission := range in.Permission.Add {
		changed.shared = append(changed.shared, permission.Account+permission.Group)
	}
	return done{Return: true}, nil
}

type deregisterImageIn struct {
	ID string `query:"ImageId"`
}

func (d *Double) deregisterImage(region string, in deregisterImageIn) (done, error) {
	gone, err := d.ownImage(region, in.ID)
	if err != nil {
		return done{}, err
	}
	d.images = slices.DeleteFunc(d.images, func(i *image) bool { return i == gone })
	return done{Return: true}, nil
}
