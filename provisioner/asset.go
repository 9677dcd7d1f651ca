package provisioner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// asset fetches one download. Done means that the image's manifest records
// this version from this place (with this sum, when one is pinned) and that
// every file it recorded still has its content: no network is needed to tell.
func (n *node) asset(d asset.Download) step {
	return step{d.ID, func(_ context.Context, h *host.Host) ([]plan.Action, error) {
		actions, err := assetLeftovers(h, d)
		if err != nil {
			return nil, err
		}
		m, err := manifest.Load(h)
		if err != nil {
			return nil, err
		}
		reason, err := notDone(h, m, d)
		if err != nil || reason == "" {
			return actions, err
		}
		return append(actions, plan.Action{
			Verb: plan.Fetch, Target: d.Target,
			Reason: fmt.Sprintf("%s from %s (%s): %s", d, d.Place(), d.Why, reason),
			Do: func(ctx context.Context, progress plan.Progress) error {
				if err := n.expectAfter(h, d); err != nil {
					return err
				}
				record, err := asset.Install(ctx, h, n.source, d, progress)
				if err != nil {
					return err
				}
				return recordAsset(h, record)
			},
		}), nil
	}}
}

// expectAfter lets the download that follows be fetched ahead, if there is one.
func (n *node) expectAfter(h *host.Host, d asset.Download) error {
	fetcher, ok := n.source.(*asset.Fetcher)
	if !ok {
		return nil
	}
	m, err := manifest.Load(h)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(n.downloads, func(o asset.Download) bool { return o.ID == d.ID })
	for _, next := range n.downloads[i+1:] {
		if reason, err := notDone(h, m, next); err != nil || reason != "" {
			fetcher.Expect(next)
			return err
		}
	}
	return nil
}

// assetLeftovers plans the removal of what a killed download left.
func assetLeftovers(h *host.Host, d asset.Download) ([]plan.Action, error) {
	names, err := d.Leftover(h)
	if err != nil {
		return nil, err
	}
	return plan.Absent(h, plan.Interrupted, names...)
}

// notDone says why a download must be fetched; empty when it need not be.
func notDone(h *host.Host, m *manifest.Manifest, d asset.Download) (string, error) {
	record, ok := m.Asset(d.ID)
	switch {
	case !ok:
		return "not installed", nil
	case record.Version != d.Version:
		return record.Version + " is installed", nil
	case record.URL != d.Recorded():
		return "what is installed came from " + record.URL, nil
	case d.SHA256 != "" && record.SHA256 != d.SHA256:
		return "what is installed has another sum than the pinned one", nil
	case d.Kind == asset.Program && (len(record.Files) != 1 || record.Files[0].Path != d.Target):
		return "it is installed elsewhere", nil
	}
	_, reason, err := record.Is(h)
	return reason, err
}

// recordAsset writes an asset into the manifest and removes the files of the
// version before it that the new one no longer has.
func recordAsset(h *host.Host, record manifest.Asset) error {
	m, err := manifest.Load(h)
	if err != nil {
		return err
	}
	if m == nil {
		m = &manifest.Manifest{}
	}
	old, _ := m.Asset(record.ID)
	kept := map[string]bool{}
	for _, f := range record.Files {
		kept[f.Path] = true
	}
	for _, f := range old.Files {
		if kept[f.Path] {
			continue
		}
		if err := h.Files.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a file of %s %s: %w", old.ID, old.Version, err)
		}
	}
	m.Record(record)
	return m.Save(h)
}
