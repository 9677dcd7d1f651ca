package provisioner

import (
	"bytes"
	"context"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// manifest describes the image in its manifest. It is the last step, when
// everything is in place. It is done when the file describes the machine exactly.
func (n *node) manifest() step {
	return step{"manifest", func(ctx context.Context, h *host.Host) ([]plan.Action, error) {
		actions, err := plan.Leftovers(h, manifest.Path)
		if err != nil {
			return nil, err
		}
		m, err := n.describe(ctx, h)
		if err != nil {
			return nil, err
		}
		want, err := m.Encode()
		if err != nil {
			return nil, err
		}
		have, err := h.Content(manifest.Path)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(have, want) {
			actions = append(actions, plan.Action{Verb: plan.Write, Target: manifest.Path, Reason: "records what the image contains; the scrub restores files from the manifest",
				Do: func(ctx context.Context, _ plan.Progress) error { return n.writeManifest(ctx, h) }})
		}
		bill, err := n.planSBOM(h, m)
		return append(actions, bill...), err
	}}
}

// writeManifest describes the machine again: the steps before have changed it since
// the plan.
func (n *node) writeManifest(ctx context.Context, h *host.Host) error {
	m, err := n.describe(ctx, h)
	if err != nil {
		return err
	}
	return m.Save(h)
}

// writtenFiles are the files that provisioning writes, without the templates, which
// first boot fills in.
func (n *node) writtenFiles() []plan.File {
	return slices.Concat(n.unitFiles(), n.systemFiles(), n.defaultsFiles(), n.authorityFiles(), []plan.File{modulesFile(), n.sysctlFile()})
}

// overwrittenUnits are the units at the place where Amazon Linux 2's bootstrap.sh
// copies its own: on distributions with a read-only /usr.
func (n *node) overwrittenUnits() []plan.File {
	return slices.DeleteFunc(n.unitFiles(), func(f plan.File) bool { return f.Path != "/etc/systemd/system/kubelet.service" })
}

// describe is the manifest for the machine's present state.
func (n *node) describe(ctx context.Context, h *host.Host) (*manifest.Manifest, error) {
	old, err := manifest.Load(h)
	if err != nil {
		return nil, err
	}
	release, err := distros.ReadRelease(h)
	if err != nil && n.spec.Distro == "" {
		return nil, err
	}
	m := &manifest.Manifest{
		Tool: version.String(), Distro: n.distro.ID, DistroVersion: release.VersionID, Arch: n.arch,
		KubernetesVersion: n.spec.KubernetesVersion, PackageManager: n.distro.PackageManager.Name(), Units: n.unitIntentions(),
	}
	versions, err := n.installed(ctx, h)
	if err != nil {
		return nil, err
	}
	for _, name := range n.packageNames() {
		if v, ok := versions[name]; ok {
			m.Packages = append(m.Packages, manifest.Package{Name: name, Version: v})
		}
	}
	for _, d := range n.downloads {
		if a, ok := old.Asset(d.ID); ok {
			m.Assets = append(m.Assets, a)
		}
	}
	n.describeImages(old, m)
	for _, f := range append(n.templateFiles(), n.overwrittenUnits()...) {
		m.Templates = append(m.Templates, manifest.Template{
			Path: f.Path, Mode: manifest.Mode(f.Mode), SHA256: manifest.Sum(f.Content), Content: string(f.Content),
		})
	}
	for _, f := range n.writtenFiles() {
		m.Files = append(m.Files, record(f))
	}
	boot, err := n.bootRecords(h)
	if err != nil {
		return nil, err
	}
	self, err := n.commandRecord()
	m.Files = append(append(m.Files, boot...), self)
	return m, err
}

func record(f plan.File) manifest.File {
	return manifest.File{Path: f.Path, Mode: manifest.Mode(f.Mode), Size: int64(len(f.Content)), SHA256: manifest.Sum(f.Content)}
}

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
