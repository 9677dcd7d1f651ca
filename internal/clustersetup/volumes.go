package clustersetup

import (
	"errors"
	"fmt"
)

// Volumes are the choices for the volumes of nodes.
type Volumes struct {
	// Size is the size of the root volume in GiB; 0 means the image's size, and at
	// least 20.
	Size int
	// Key is the KMS key of the root volume, or empty.
	Key string
	// Rate is the volume initialization rate in MiB/s; 0 means EC2's default.
	Rate int
}

// usualSize is the size of a root volume in GiB. Karpenter has the same default.
const usualSize = 20

// Validate returns all faults of the choices, joined.
func (v Volumes) Validate() error {
	var errs []error
	if v.Size < 0 || v.Size > 16384 {
		errs = append(errs, fmt.Errorf("volume-size: %d is not a size from 1 to 16384 GiB", v.Size))
	}
	if v.Rate != 0 && (v.Rate < 100 || v.Rate > 300) {
		errs = append(errs, fmt.Errorf("volume-initialization-rate: %d is not a rate from 100 to 300 MiB/s", v.Rate))
	}
	if v.Rate != 0 && v.Key != "" {
		errs = append(errs, errors.New("kms-key: EC2 accepts no key together with a volume initialization rate, because the rate needs the snapshot's ID; copy the AMI with the key"))
	}
	return errors.Join(errs...)
}

// disk is one block device of a node. Its zero values are left out.
type disk struct {
	device, snapshot, key string
	size, rate            int
	encrypted             bool
}

// disks are the block devices of the nodes. With a rate, each volume names its
// snapshot. EC2 takes no encryption for those: they have that of the snapshot.
func (n Node) disks() ([]disk, error) {
	image := n.Found.Image
	if image == nil {
		return nil, errors.New("the AMI was not read")
	}
	var list []disk
	for _, v := range image.Volumes {
		d := disk{device: v.Device, size: v.Size}
		root := v.Device == image.RootDevice
		if root {
			if n.Volumes.Size != 0 && n.Volumes.Size < v.Size {
				return nil, fmt.Errorf("volume-size: %d is smaller than the root volume of %s, which has %d GiB", n.Volumes.Size, image.ID, v.Size)
			}
			d.size = max(n.Volumes.Size, v.Size)
			if n.Volumes.Size == 0 {
				d.size = max(d.size, usualSize)
			}
		}
		switch {
		case n.Volumes.Rate != 0:
			d.snapshot, d.rate = v.Snapshot, n.Volumes.Rate
		case !root:
			continue // EC2 takes the volume from the AMI
		default:
			d.encrypted, d.key = !v.Encrypted || n.Volumes.Key != "", n.Volumes.Key
		}
		list = append(list, d)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the AMI %s has no root volume with a snapshot", image.ID)
	}
	return list, nil
}
