//go:build linux

package aws

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

type snapshotsOut struct {
	Snapshots []*Snapshot `xml:"snapshotSet>item"`
}

func (w *World) describeSnapshots(region string, in listIn) (snapshotsOut, error) {
	w.takeOver()
	all := still(w, w.Snapshots, w.front.goneSnapshots)
	chosen, err := selected(all, region, in.Snapshots, "InvalidSnapshot.NotFound", in, func(s *Snapshot) (string, map[string]string, []Tag) {
		return "", map[string]string{"snapshot-id": s.ID, "description": s.Description}, s.Tags
	})
	if err == nil {
		chosen, err = seen(w, chosen, in.Snapshots, "InvalidSnapshot.NotFound", pendingSnapshot)
	}
	return snapshotsOut{chosen}, err
}

type snapshotIn struct {
	ID        string `query:"SnapshotId"`
	Attribute string `query:"Attribute"`
}

func (w *World) describeSnapshotAttribute(region string, in snapshotIn) (sharesOut, error) {
	if in.Attribute != "createVolumePermission" {
		return sharesOut{}, endpoint.Refuse("the attribute %q", in.Attribute)
	}
	s, err := w.ownSnapshot(region, in.ID)
	if err != nil {
		return sharesOut{}, err
	}
	return sharesOut{Volume: s.Shares}, nil
}

func (w *World) modifySnapshot(region string, in struct {
	ID         string     `query:"SnapshotId"`
	Permission permission `query:"CreateVolumePermission"`
	Groups     []string   `query:"UserGroup"`
	Accounts   []string   `query:"UserId"`
}) (done, error) {
	s, err := w.ownSnapshot(region, in.ID)
	if err != nil {
		return done{}, err
	}
	s.Shares = shared(s.Shares, in.Permission)
	return done{true}, nil
}

// deleteSnapshot refuses to delete snapshots of images. moto would delete them.
func (w *World) deleteSnapshot(region string, in snapshotIn) (done, error) {
	w.takeOver()
	gone, err := w.ownSnapshot(region, in.ID)
	if err != nil {
		return done{}, err
	}
	for _, i := range w.Images {
		if slices.ContainsFunc(i.Devices, func(d Drive) bool { return d.Snapshot == in.ID }) {
			return done{}, endpoint.Fail("InvalidSnapshot.InUse", "The snapshot %s is currently in use by %s", in.ID, i.ID)
		}
	}
	if gone.inUse > 0 {
		gone.inUse--
		return done{}, endpoint.Fail("InvalidSnapshot.InUse", "The snapshot %s is currently in use", in.ID)
	}
	w.Snapshots = slices.DeleteFunc(w.Snapshots, func(s *Snapshot) bool { return s == gone })
	w.died(gone)
	if w.ebs != nil {
		w.ebs.Delete(gone.ID)
	}
	if gone.Disk.Image == "" || slices.ContainsFunc(w.Snapshots, func(s *Snapshot) bool { return s.Disk == gone.Disk }) {
		return done{true}, nil
	}
	if err := os.Remove(gone.Disk.Image); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done{}, fmt.Errorf("deleting the snapshot %s: %w", gone.ID, err)
	}
	return done{true}, nil
}
