package provisioner

import (
	"bytes"
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// planSBOM plans the bill of materials next to the manifest m when sbom is set, and
// its removal otherwise.
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
			actions = append(actions, plan.Action{Verb: plan.Remove, Target: manifest.SBOMPath, Reason: "sbom is no longer set",
				Do: func(context.Context, plan.Progress) error { return h.Files.Remove(manifest.SBOMPath) }})
		}
		return actions, nil
	}
	want, err := m.SBOM()
	if err != nil || bytes.Equal(have, want) {
		return actions, err
	}
	return append(actions, plan.Action{Verb: plan.Write, Target: manifest.SBOMPath, Reason: "sbom is set",
		Do: func(ctx context.Context, _ plan.Progress) error { return n.writeSBOM(ctx, h) }}), nil
}

// writeSBOM describes the machine again, like writeManifest.
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
