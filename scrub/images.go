package scrub

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/containerd"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// imagesLost reports container images that the manifest records and containerd
// does not have any more, as they were. Where containerd does not run, what it
// has written down tells.
func imagesLost(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	m, err := manifest.Load(h)
	if err != nil || m == nil || len(m.Images) == 0 {
		return nil, err
	}
	have, err := containerd.Images(ctx, h)
	if err != nil {
		return nil, err
	}
	var actions []plan.Action
	for _, i := range m.Images {
		if lack := containerd.Lacks(have, i.Name, i.Digest); lack != "" {
			actions = append(actions, plan.Action{Verb: plan.Decide, Target: "image " + i.Name, Reason: lack + ": provision again"})
		}
	}
	return actions, nil
}
