package provisioner

import (
	"bytes"
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// planSBOM plans the image's bill of materials beside its manifest m, for who
// asked for it; one that is not asked for any more goes.
func (n *node) planSBOM(h *host.Host, m *manifest.Manifest) ([]plan.Action, error) {
	actions, err := plan.Leftovers(h, manifest.SBOMPath)
	if err != nil {
		return nil, err
	}
	have, err := h.Content(manifest.SBOMPath)
	if err != nil {
		return nil, err
	}
	if !n.spec.SBOM {
		if have != nil {
			actions = append(actions, plan.Action{Verb: plan.Remove, Target: manifest.SBOMPath, Reason: "it is not asked for any more",
				Do: func(context.Context, plan.Progress) error { return h.Files.Remove(manifest.SBOMPath) }})
		}
		return actions, nil
	}
	want, err := m.SBOM()
	if err != nil || bytes.Equal(have, want) {
		return actions, err
	}
	return append(actions, plan.Action{Verb: plan.Write, Target: manifest.SBOMPath, Reason: "sbom was asked for",
		Do: func(ctx context.Context, _ plan.Progress) error { return n.writeSBOM(ctx, h) }}), nil
}

// writeSBOM describes the machine anew, as writeManifest does.
func (n *node) writeSBOM(ctx context.Context, h *host.Host) error {
	m, err := n.describe(ctx, h)
	if err != nil {
		return err
	}
	text, err := m.SBOM()
	if err != nil {
		return err
	}
	return h.Files.WriteFile(manifest.SBOMPath, text, host.Attributes{Mode: 0o644})
}
