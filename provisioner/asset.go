package provisioner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// asset fetches one download. It is done when the manifest records this version
// from this address (and with the pinned sum, if any) and every recorded file still
// has its content. The check needs no network.
func (n *node) asset(d asset.Download) step {
	return step{d.ID, func(_ context.Context, h *host.Host) ([]plan.Action, error) {
		actions, err := interrupted(h, d.Leftover)
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
				record, err := asset.Install(ctx, h, n.source, d, progress)
				if err != nil {
					return err
				}
				return recordAsset(h, record)
			},
		}), nil
	}}
}

// interrupted plans the removal of the files of a killed run.
func interrupted(h *host.Host, leftover func(*host.Host) ([]string, error)) ([]plan.Action, error) {
	names, err := leftover(h)
	if err != nil {
		return nil, err
	}
	return plan.Absent(h, plan.Interrupted, names...)
}

// notDone says why a download must be fetched. Empty means that it is installed.
func notDone(h *host.Host, m *manifest.Manifest, d asset.Download) (string, error) {
	record, ok := m.Asset(d.ID)
	switch {
	case !ok:
		return "not installed", nil
	case record.Version != d.Version:
		return record.Version + " is installed", nil
	case record.URL != d.Recorded():
		return "the installed file came from " + record.URL, nil
	case d.SHA256 != "" && record.SHA256 != d.SHA256:
		return "the installed file has another sum than the pinned one", nil
	case d.Kind == asset.Program && (len(record.Files) != 1 || record.Files[0].Path != d.Target):
		return "the file is installed elsewhere", nil
	}
	return record.Differs(h)
}

// startedManifest is the manifest, which may have nothing yet.
func startedManifest(h *host.Host) (*manifest.Manifest, error) {
	m, err := manifest.Load(h)
	if m == nil {
		m = &manifest.Manifest{}
	}
	return m, err
}

// recordAsset records an asset in the manifest and removes files of the previous
// version that the new one does not have.
func recordAsset(h *host.Host, record manifest.Asset) error {
	m, err := startedManifest(h)
	if err != nil {
		return err
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
