package amiimport

import (
	"cmp"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
)

// defaultVolume is the type of root volumes.
const defaultVolume = "gp3"

// volumeType is a type of volumes that can be a root
// (https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html). st1 and sc1
// cannot be one.
type volumeType struct {
	name string
	// gib is the size of the largest volume.
	gib int
	// least and most are the IOPS that may be set; most is 0 if none may.
	least, most int
	// each is the largest number of IOPS for each GiB.
	each int
	// needs says that IOPS must be set.
	needs bool
}

// volumeTypes is in the order of names.
var volumeTypes = []volumeType{
	{name: "gp2", gib: 16384}, {name: "gp3", gib: 65536, least: 3000, most: 80000, each: 500},
	{name: "io1", gib: 16384, least: 100, most: 64000, each: 50, needs: true},
	{name: "io2", gib: 65536, least: 100, most: 256000, each: 1000, needs: true}, {name: "standard", gib: 1024},
}

// VolumeTypes returns the values of volume_type.
func VolumeTypes() []string {
	var names []string
	for _, v := range volumeTypes {
		names = append(names, v.name)
	}
	return names
}

// The throughput of gp3 in MiB/s: each 4 IOPS allow 1 MiB/s, and IOPS that are not set
// are 3,000.
const (
	throughputLeast = 125
	throughputMost  = 2000
	iopsEach        = 4
	iopsDefault     = 3000
)

// checkVolume checks the fields of the root volume that need no disk.
func (s Spec) checkVolume(f *faults) {
	f.when(s.Partition < 0 || s.Partition > 128, "%s: %d is not the number of a partition, from 1 to 128", surface.Name("root_partition"), s.Partition)
	f.when(s.VolumeSize < 0, "%s: %d is not a size in GiB", surface.Name("volume_size"), s.VolumeSize)
	f.when(s.InitializationRate != 0 && (s.InitializationRate < 100 || s.InitializationRate > 300), "%s: %d is not from 100 to 300 MiB/s", surface.Name("volume_initialization_rate"), s.InitializationRate)
	i := slices.IndexFunc(volumeTypes, func(v volumeType) bool { return v.name == cmp.Or(s.VolumeType, defaultVolume) })
	if i < 0 {
		return // checkWords has the error
	}
	v := volumeTypes[i]
	f.when(s.VolumeSize > v.gib, "%s: a volume of the type %s has at most %d GiB, not %d", surface.Name("volume_size"), v.name, v.gib, s.VolumeSize)
	switch {
	case s.IOPS == 0:
		f.when(v.needs, "%s: a volume of the type %s needs IOPS, from %d to %d", surface.Name("iops"), v.name, v.least, v.most)
	case v.most == 0:
		f.when(true, "%s: the IOPS of the type %s cannot be set", surface.Name("iops"), v.name)
	default:
		f.when(s.IOPS < v.least || s.IOPS > v.most, "%s: %d is not from %d to %d, for the type %s", surface.Name("iops"), s.IOPS, v.least, v.most, v.name)
	}
	if s.Throughput == 0 {
		return
	}
	f.when(v.name != defaultVolume, "%s: only %s has a throughput", surface.Name("throughput"), defaultVolume)
	f.when(s.Throughput < throughputLeast || s.Throughput > throughputMost, "%s: %d is not from %d to %d MiB/s", surface.Name("throughput"), s.Throughput, throughputLeast, throughputMost)
	f.when(s.Throughput*iopsEach > cmp.Or(s.IOPS, iopsDefault), "%s: %d MiB/s need %d IOPS; set %s", surface.Name("throughput"), s.Throughput, s.Throughput*iopsEach, surface.Name("iops"))
}

// checkSize checks the root volume of a disk.
func (s Spec) checkSize(disk int64) error {
	var f faults
	f.when(s.VolumeSize != 0 && int64(s.VolumeSize) < disk, "%s: the disk has %d GiB, so the volume cannot have %d", surface.Name("volume_size"), disk, s.VolumeSize)
	size := max(int64(s.VolumeSize), disk)
	for _, v := range volumeTypes {
		if v.name != cmp.Or(s.VolumeType, defaultVolume) {
			continue
		}
		f.when(size > int64(v.gib), "%s: a volume of the type %s has at most %d GiB, but the disk has %d", surface.Name("volume_type"), v.name, v.gib, disk)
		// Every gp3 volume has 3,000 IOPS.
		f.when(v.each > 0 && int64(s.IOPS) > max(size*int64(v.each), int64(v.least)), "%s: a volume of the type %s with %d GiB has at most %d IOPS, not %d", surface.Name("iops"), v.name, size, max(size*int64(v.each), int64(v.least)), s.IOPS)
	}
	if len(f.errs) == 0 {
		return nil
	}
	return f.errs[0]
}
