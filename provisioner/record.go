package provisioner

import (
	"bytes"
	"context"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// manifest describes the image in its manifest, and in a bill of materials beside it when
// sbom is set. It is the last step, when everything is in place. It is done when the files
// describe the machine exactly.
func (n *node) manifest(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	m, err := n.describe(ctx, h)
	if err != nil {
		return nil, err
	}
	var g gathered
	g.add(n.planDescription(h, m, manifest.Path,
		"records what the image contains; the scrub restores files from the manifest", (*manifest.Manifest).Encode))
	if n.spec.SBOM {
		g.add(n.planDescription(h, m, manifest.SBOMPath, "sbom is set", (*manifest.Manifest).SBOM))
	} else {
		g.add(plan.Leftovers(h, manifest.SBOMPath))
		g.add(plan.Absent(h, "sbom is no longer set", manifest.SBOMPath))
	}
	return g.all()
}

// planDescription plans a file about the machine, which m describes. The action describes
// the machine again: the steps before have changed it since the plan.
func (n *node) planDescription(h *host.Host, m *manifest.Manifest, name, why string,
	encode func(*manifest.Manifest) ([]byte, error)) ([]plan.Action, error) {
	actions, err := plan.Leftovers(h, name)
	if err != nil {
		return nil, err
	}
	want, err := encode(m)
	if err != nil {
		return nil, err
	}
	if have, err := h.Content(name); err != nil || bytes.Equal(have, want) {
		return actions, err
	}
	return append(actions, act(plan.Write, name, why, func(ctx context.Context) error {
		now, err := n.describe(ctx, h)
		if err != nil {
			return err
		}
		text, err := encode(now)
		if err != nil {
			return err
		}
		return h.Files.WriteFile(name, text, host.Attributes{Mode: 0o644})
	})), nil
}

// writtenFiles are the files that provisioning writes, without the templates, which
// first boot fills in.
func (n *node) writtenFiles() []plan.File {
	return slices.Concat(n.stepFiles("units"), n.systemFiles(), n.defaultsFiles(), n.authorityFiles(),
		n.stepFiles("modules"), []plan.File{n.sysctlFile()})
}

// overwrittenUnits are the units at the place where Amazon Linux 2's bootstrap.sh
// copies its own: on distributions with a read-only /usr.
func (n *node) overwrittenUnits() []plan.File {
	return slices.DeleteFunc(n.stepFiles("units"), func(f plan.File) bool {
		return f.Path != "/etc/systemd/system/kubelet.service"
	})
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
		KubernetesVersion: n.spec.KubernetesVersion, PackageManager: n.distro.PackageManager.Name(),
		Units: n.unitIntentions(),
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
	m.Files = show.Each(n.writtenFiles(), record)
	boot, err := n.bootRecords(h)
	if err != nil {
		return nil, err
	}
	self, err := n.commandRecord()
	m.Files = append(append(m.Files, boot...), self)
	return m, err
}

func record(f plan.File) manifest.File {
	return manifest.File{
		Path: f.Path, Mode: manifest.Mode(f.Mode), Size: int64(len(f.Content)), SHA256: manifest.Sum(f.Content),
	}
}
