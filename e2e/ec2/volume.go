package ec2

import (
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// volume is an instance's root volume. What it says about itself is kept and
// reported; the disk is the machine's.
type volume struct {
	place
	zone, snapshot, device, instance string
	spec                             volumeSpec
	created                          time.Time
}

// volumeSpec is what a block device mapping can say about a volume.
type volumeSpec struct {
	Size                *int    `query:"VolumeSize"`
	Type                *string `query:"VolumeType"`
	Encrypted           *bool   `query:"Encrypted"`
	KMSKey              *string `query:"KmsKeyId"`
	DeleteOnTermination *bool   `query:"DeleteOnTermination"`
	IOPS                *int    `query:"Iops"`
	Throughput          *int    `query:"Throughput"`
}

type deviceMapping struct {
	Device string      `query:"DeviceName"`
	EBS    *volumeSpec `query:"Ebs"`
}

// orElse answers what a pointer points to, or the default.
func orElse[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// volumeSpecFor completes what a launch says about its root volume with what
// the image says. A second volume is refused: the machine has one disk.
func volumeSpecFor(image *image, root *snapshot, mappings []deviceMapping) (volumeSpec, error) {
	var spec volumeSpec
	for _, mapping := range mappings {
		if mapping.Device != image.rootDevice {
			return spec, endpoint.Refuse("the device %s: a machine has one disk, and the image's is %s", mapping.Device, image.rootDevice)
		}
		if mapping.EBS != nil {
			spec = *mapping.EBS
		}
	}
	size, encrypted := orElse(spec.Size, root.size), orElse(spec.Encrypted, root.encrypted)
	switch {
	case size < root.size:
		return spec, endpoint.Fail("InvalidBlockDeviceMapping", "volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB", size, root.id, root.size)
	case root.encrypted && !encrypted:
		return spec, endpoint.Fail("InvalidBlockDeviceMapping", "an encrypted snapshot makes no unencrypted volume")
	}
	kind, remove := orElse(spec.Type, "gp2"), orElse(spec.DeleteOnTermination, true)
	spec.Size, spec.Encrypted, spec.Type, spec.DeleteOnTermination = &size, &encrypted, &kind, &remove
	return spec, nil
}

type describeVolumesIn struct {
	IDs     []string `query:"VolumeId"`
	Filters []filter `query:"Filter"`
}

// Volume is a disk.
type Volume struct {
	ID          string       `xml:"volumeId"`
	State       string       `xml:"status"`
	Size        int          `xml:"size"`
	Type        string       `xml:"volumeType"`
	Encrypted   bool         `xml:"encrypted"`
	KMSKey      string       `xml:"kmsKeyId,omitempty"`
	IOPS        int          `xml:"iops,omitempty"`
	Throughput  int          `xml:"throughput,omitempty"`
	Snapshot    string       `xml:"snapshotId"`
	Zone        string       `xml:"availabilityZone"`
	Created     string       `xml:"createTime"`
	Attachments []Attachment `xml:"attachmentSet>item"`
	Tags        []Tag        `xml:"tagSet>item"`
}

// Attachment ties a volume to an instance.
type Attachment struct {
	Volume              string `xml:"volumeId"`
	Instance            string `xml:"instanceId"`
	Device              string `xml:"device"`
	State               string `xml:"status"`
	DeleteOnTermination bool   `xml:"deleteOnTermination"`
}

type describeVolumesOut struct {
	Volumes []Volume `xml:"volumeSet>item"`
}

func (d *Double) describeVolumes(region string, in describeVolumesIn) (describeVolumesOut, error) {
	var out describeVolumesOut
	chosen, err := selected(inRegion(d.volumes, region), in.IDs, "InvalidVolume.NotFound",
		func(v *volume) string { return v.id },
		func(v *volume) (bool, error) {
			return matches(in.Filters, map[string]string{"volume-id": v.id, "attachment.instance-id": v.instance}, d.tags[v.id])
		})
	for _, volume := range chosen {
		out.Volumes = append(out.Volumes, d.shapeVolume(volume))
	}
	return out, err
}

func (d *Double) shapeVolume(v *volume) Volume {
	shape := Volume{
		ID: v.id, State: "available", Size: *v.spec.Size, Type: *v.spec.Type, Encrypted: *v.spec.Encrypted,
		KMSKey: orElse(v.spec.KMSKey, ""), IOPS: orElse(v.spec.IOPS, 0), Throughput: orElse(v.spec.Throughput, 0),
		Snapshot: v.snapshot, Zone: v.zone, Created: timestamp(v.created), Tags: d.tags[v.id],
	}
	if v.instance != "" {
		shape.State = "in-use"
		shape.Attachments = []Attachment{{
			Volume: v.id, Instance: v.instance, Device: v.device, State: "attached",
			DeleteOnTermination: *v.spec.DeleteOnTermination,
		}}
	}
	return shape
}

// release lets go of the volume of an instance that has ended.
func (d *Double) release(instance *instance) {
	instance.volume.instance = ""
	if *instance.volume.spec.DeleteOnTermination {
		d.volumes = slices.DeleteFunc(d.volumes, func(v *volume) bool { return v == instance.volume })
	}
}

type deleteVolumeIn struct {
	ID string `query:"VolumeId"`
}

func (d *Double) deleteVolume(region string, in deleteVolumeIn) (done, error) {
	gone, err := find(d.volumes, region, in.ID, "InvalidVolume.NotFound")
	if err != nil {
		return done{}, err
	}
	if gone.instance != "" {
		return done{}, endpoint.Fail("VolumeInUse", "volume %s is currently attached to %s", gone.id, gone.instance)
	}
	d.volumes = slices.DeleteFunc(d.volumes, func(v *volume) bool { return v == gone })
	return done{Return: true}, nil
}

// timestamp is a time as EC2 writes it.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
