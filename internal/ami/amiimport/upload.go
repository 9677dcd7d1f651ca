package amiimport

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

func (r *run) upload(ctx context.Context) error {
	source, err := r.source()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.Folder, 0o700); err != nil {
		return fmt.Errorf("making the folder for the journal of the upload: %w", err)
	}
	tidy(r.Folder, time.Now())
	u := snapshot.Upload{Journal: r.journal, LeaveJournal: true, Keep: r.Spec.Keep, Say: r.Say}
	u.NewSnapshot = awsapi.NewSnapshot{
		Description: r.Spec.Description, Tags: joined(r.Spec.Tags, r.Spec.SnapshotTags), Encrypted: r.Spec.Encrypt,
		Key: r.Spec.KMSKey, Parent: r.Spec.ParentSnapshot,
	}
	if u.Parent != "" {
		if u.ParentSums, err = r.parentSums(ctx, source.Blocks); err != nil && !r.over(err) {
			return err
		}
	}
	if id := snapshot.Interrupted(r.journal); id != "" {
		r.Say("continuing with the snapshot %s of an interrupted import", id)
	}
	u.Progress = func(p snapshot.Progress) {
		if r.Progress != nil {
			r.Progress(p)
		}
		if p.Read == p.Total {
			r.Say("all blocks are there; waiting until the snapshot is completed")
		}
	}
	if r.result.Upload, err = u.Run(ctx, r.aws, source); err != nil {
		return fmt.Errorf("uploading the disk %s: %w", r.Disk, err)
	}
	id := r.result.Upload.Snapshot.ID
	if err := r.result.Upload.Sums.Save(r.sumsFile(id), id, r.result.Disk.Digest); err != nil {
		r.Say("%v; an import with the parent %s will read the snapshot instead", err, id)
	}
	return nil
}

// journalPath is the path of the file that lets an interrupted upload go on: one for
// each disk, region and AMI.
func (r *run) journalPath() (string, error) {
	path, err := filepath.Abs(r.Disk)
	if err != nil {
		return "", fmt.Errorf("finding the path of the disk %s: %w", r.Disk, err)
	}
	sum := sha256.Sum256([]byte(path + "\x00" + r.Spec.Name))
	return filepath.Join(r.Folder, fmt.Sprintf("%s-%x%s", r.aws.Region, sum[:8], journalSuffix)), nil
}

// forget removes the journal: the import is over.
func (r *run) forget() error {
	if err := os.Remove(r.journal); err != nil {
		return fmt.Errorf("removing the journal of the upload: %w", err)
	}
	return nil
}

// The ends of the names of files in the folder.
const (
	journalSuffix = ".journal"
	sumsSuffix    = ".sums"
)

func (r *run) sumsFile(id string) string { return filepath.Join(r.Folder, id+sumsSuffix) }

// unusedMost is how long a file stays in the folder without use.
const unusedMost = 90 * 24 * time.Hour

// tidy removes the files of old imports, but no records of replaced AMIs. A failure harms nothing.
func tidy(folder string, now time.Time) {
	for _, suffix := range []string{journalSuffix, sumsSuffix} {
		names, _ := filepath.Glob(filepath.Join(folder, "*"+suffix))
		for _, name := range names {
			if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() &&
				now.Sub(info.ModTime()) > unusedMost {
				_ = os.Remove(name)
			}
		}
	}
}

// parentSums returns the checksums of the parent's blocks: from the file of the import
// that made the parent, or from the snapshot itself.
func (r *run) parentSums(ctx context.Context, blocks []int32) (snapshot.Sums, error) {
	name := r.sumsFile(r.Spec.ParentSnapshot)
	sums, err := snapshot.LoadSums(name, r.Spec.ParentSnapshot)
	if err == nil {
		now := time.Now()
		_ = os.Chtimes(name, now, now) // the file is in use
		return sums, nil
	}
	r.Say("reading the parent %s: %v", r.Spec.ParentSnapshot, err)
	return snapshot.ReadSums(ctx, r.aws, r.Spec.ParentSnapshot, blocks)
}

// source is the disk for the upload.
func (r *run) source() (snapshot.Source, error) {
	info, err := os.Stat(r.Disk)
	if err != nil {
		return snapshot.Source{}, fmt.Errorf("reading the disk: %w", err)
	}
	s := snapshot.Source{
		// The journal belongs to the path.
		Identity: fmt.Sprintf("%d bytes, changed %s", info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)),
		Size:     r.image.SizeGiB(), Check: r.image.Check,
		Read: func(index int32, into []byte) error {
			_, err := r.image.Block(int64(index), into)
			return err
		},
	}
	for index := range r.image.Layout.Blocks() {
		s.Blocks = append(s.Blocks, int32(index))
	}
	return s, nil
}

func joined(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, one := range all {
		maps.Copy(out, one)
	}
	return out
}

const defaultVolume = "gp3"

// volumeType is a type of volumes that can be a root
// (https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html). st1 and sc1
// cannot be one.
type volumeType struct {
	// gib is the size of the largest volume.
	gib int
	// least and most are the IOPS that may be set; most is 0 if none may.
	least, most int
	// each is the largest number of IOPS for each GiB.
	each int
	// needs says that IOPS must be set.
	needs bool
}

var volumeTypes = map[string]volumeType{
	"gp2": {gib: 16384}, "gp3": {gib: 65536, least: 3000, most: 80000, each: 500},
	"io1": {gib: 16384, least: 100, most: 64000, each: 50, needs: true},
	"io2": {gib: 65536, least: 100, most: 256000, each: 1000, needs: true}, "standard": {gib: 1024},
}

// VolumeTypes returns the values of volume_type.
func VolumeTypes() []string { return slices.Sorted(maps.Keys(volumeTypes)) }

// volume is the type of the root volume; an unknown one is zero.
func (s Spec) volume() (name string, v volumeType) {
	name = cmp.Or(s.VolumeType, defaultVolume)
	return name, volumeTypes[name]
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
func (s Spec) checkVolume(f *surface.Faults) {
	f.When(s.Partition < 0, "{root_partition}: there is no partition %d: give a number from 1", s.Partition)
	f.When(s.VolumeSize < 0, "{volume_size}: %d is not a size in GiB", s.VolumeSize)
	f.When(s.InitializationRate != 0 && (s.InitializationRate < 100 || s.InitializationRate > 300),
		"{volume_initialization_rate}: %d is not from 100 to 300 MiB/s", s.InitializationRate)
	name, v := s.volume()
	if v.gib == 0 {
		return // checkWords has the error
	}
	f.When(s.VolumeSize > v.gib, "{volume_size}: a volume of the type %s has at most %d GiB, not %d", name, v.gib,
		s.VolumeSize)
	switch {
	case s.IOPS == 0:
		f.When(v.needs, "{iops}: a volume of the type %s needs IOPS, from %d to %d", name, v.least, v.most)
	case v.most == 0:
		f.When(true, "{iops}: the IOPS of the type %s cannot be set", name)
	default:
		f.When(s.IOPS < v.least || s.IOPS > v.most, "{iops}: %d is not from %d to %d, for the type %s", s.IOPS, v.least,
			v.most, name)
	}
	if s.Throughput == 0 {
		return
	}
	f.When(name != defaultVolume, "{throughput}: only %s has a throughput", defaultVolume)
	f.When(s.Throughput < throughputLeast || s.Throughput > throughputMost,
		"{throughput}: %d is not from %d to %d MiB/s", s.Throughput, throughputLeast, throughputMost)
	f.When(s.Throughput*iopsEach > cmp.Or(s.IOPS, iopsDefault), "{throughput}: %d MiB/s need %d IOPS; set {iops}",
		s.Throughput, s.Throughput*iopsEach)
}

func (s Spec) checkSize(disk int64) error {
	var f surface.Faults
	f.When(s.VolumeSize != 0 && int64(s.VolumeSize) < disk,
		"{volume_size}: the disk has %d GiB, so the volume cannot have %d", disk, s.VolumeSize)
	name, v := s.volume()
	size := max(int64(s.VolumeSize), disk)
	f.When(size > int64(v.gib), "{volume_type}: a volume of the type %s has at most %d GiB, but the disk has %d", name,
		v.gib, disk)
	most := max(size*int64(v.each), int64(v.least)) // every gp3 volume has 3,000 IOPS
	f.When(v.each > 0 && int64(s.IOPS) > most,
		"{iops}: a volume of the type %s with %d GiB has at most %d IOPS, not %d", name, size, most, s.IOPS)
	return f.Err()
}
