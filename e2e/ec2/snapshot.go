package ec2

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// snapshot holds the disk that an image boots from.
type snapshot struct {
	place
	owner, description, volume string
	key                        string // of KMS; empty for the account's default
	disk                       Disk
	size                       int // GiB
	encrypted                  bool
	created                    time.Time
	shared                     []string // accounts, and "all"
}

type describeSnapshotsIn struct {
	IDs     []string `query:"SnapshotId"`
	Owners  []string `query:"Owner"`
	Filters []filter `query:"Filter"`
}

// Snapshot is a copy of a volume.
type Snapshot struct {
	ID          string `xml:"snapshotId"`
	Volume      string `xml:"volumeId"`
	State       string `xml:"status"`
	Progress    string `xml:"progress"`
	Started     string `xml:"startTime"`
	Owner       string `xml:"ownerId"`
	Size        int    `xml:"volumeSize"`
	Encrypted   bool   `xml:"encrypted"`
	KMSKey      string `xml:"kmsKeyId,omitempty"`
	Description string `xml:"description,omitempty"`
	Tags        []Tag  `xml:"tagSet>item"`
}

type describeSnapshotsOut struct {
	Snapshots []Snapshot `xml:"snapshotSet>item"`
}

func (d *Double) describeSnapshots(region string, in describeSnapshotsIn) (describeSnapshotsOut, error) {
	var out describeSnapshotsOut
	chosen, err := selected(inRegion(d.snapshots, region), in.IDs, "InvalidSnapshot.NotFound",
		func(s *snapshot) string { return s.id },
		func(s *snapshot) (bool, error) {
			if !d.ownedBy(s.owner, in.Owners) {
				return false, nil
			}
			return matches(in.Filters, map[string]string{"snapshot-id": s.id, "volume-id": s.volume}, d.tags[s.id])
		})
	for _, s := range chosen {
		out.Snapshots = append(out.Snapshots, Snapshot{
			ID: s.id, Volume: s.volume, State: "completed", Progress: "100%", Started: timestamp(s.created),
			Owner: s.owner, Size: s.size, Encrypted: s.encrypted, KMSKey: s.key, Description: s.description, Tags: d.tags[s.id],
		})
	}
	return out, err
}

// ownedBy tells whether an owner is among those that a call asks for.
func (d *Double) ownedBy(owner string, wanted []string) bool {
	return len(wanted) == 0 || slices.Contains(wanted, owner) ||
		owner == d.config.Account && slices.Contains(wanted, "self")
}

type modifySnapshotIn struct {
	ID         string `query:"SnapshotId"`
	Permission struct {
		Add []struct {
			Group   string `query:"Group"`
			Account string `query:"UserId"`
		} `query:"Add"`
	} `query:"CreateVolumePermission"`
	// The same once more, in an older form.
	Groups   []string `query:"UserGroup"`
	Accounts []string `query:"UserId"`
}

func (d *Double) modifySnapshot(region string, in modifySnapshotIn) (done, error) {
	changed, err := d.ownSnapshot(region, in.ID)
	if err != nil {
		return done{}, err
	}
	for _, permission := range in.Permission.Add {
		changed.shared = append(changed.shared, permission.Account+permission.Group)
	}
	return done{Return: true}, nil
}

type deleteSnapshotIn struct {
	ID string `query:"SnapshotId"`
}

func (d *Double) deleteSnapshot(region string, in deleteSnapshotIn) (done, error) {
	gone, err := d.ownSnapshot(region, in.ID)
	if err != nil {
		return done{}, err
	}
	for _, image := range d.images {
		if image.snapshot == gone {
			return done{}, endpoint.Fail("InvalidSnapshot.InUse", "the snapshot %s is currently in use by %s", gone.id, image.id)
		}
	}
	d.snapshots = slices.DeleteFunc(d.snapshots, func(s *snapshot) bool { return s == gone })
	if slices.ContainsFunc(d.snapshots, func(s *snapshot) bool { return s.disk == gone.disk }) {
		return done{Return: true}, nil
	}
	if err := os.Remove(gone.disk.Image); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done{}, fmt.Errorf("deleting the snapshot %s: %w", gone.id, err)
	}
	return done{Return: true}, nil
}

// ownSnapshot answers a snapshot that the caller may change.
func (d *Double) ownSnapshot(region, id string) (*snapshot, error) {
	own, err := find(d.snapshots, region, id, "InvalidSnapshot.NotFound")
	if err == nil && own.owner != d.config.Account {
		return nil, endpoint.Fail("UnauthorizedOperation", "not authorized for snapshot:%s", id)
	}
	return own, err
}
