package aws

import (
	"context"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

type done struct {
	Return bool `xml:"return"`
}

// own finds an image of the account.
func (w *World) own(id string) (int, error) {
	i := slices.IndexFunc(w.Images, func(i Image) bool { return i.ID == id })
	if i < 0 {
		return 0, endpoint.Fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	}
	if w.Images[i].Owner != Account {
		return 0, endpoint.Fail("AuthFailure", "Not authorized for image:%s", id)
	}
	return i, nil
}

func (w *World) deprecate(_ context.Context, _ endpoint.Call, in struct {
	ID string `query:"ImageId"`
	At string `query:"DeprecateAt"`
}) (done, error) {
	i, err := w.own(in.ID)
	if err != nil {
		return done{}, err
	}
	w.Images[i].Deprecated = in.At
	return done{true}, nil
}

func (w *World) deregister(_ context.Context, _ endpoint.Call, in struct {
	ID string `query:"ImageId"`
}) (done, error) {
	i, err := w.own(in.ID)
	if err != nil {
		return done{}, err
	}
	w.Images = slices.Delete(w.Images, i, i+1)
	return done{true}, nil
}

func (w *World) deleteSnapshot(_ context.Context, _ endpoint.Call, in struct {
	ID string `query:"SnapshotId"`
}) (done, error) {
	if !slices.Contains(w.Snapshots, in.ID) {
		return done{}, endpoint.Fail("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", in.ID)
	}
	for _, i := range w.Images {
		if slices.ContainsFunc(i.Devices, func(d Drive) bool { return d.Snapshot == in.ID }) {
			return done{}, endpoint.Fail("InvalidSnapshot.InUse", "The snapshot %s is currently in use by %s", in.ID, i.ID)
		}
	}
	w.Snapshots = slices.DeleteFunc(w.Snapshots, func(s string) bool { return s == in.ID })
	return done{true}, nil
}
