package provisioner

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// runtimePrograms are the programs of the container runtime. Most distributions
// have a package of the same name; others have the program in their own image.
var runtimePrograms = []string{"containerd", "runc"}

// Result returns the contents of the image after a provision with these
// outcomes: what the manifest records, and the versions of the container
// runtime.
func Result(ctx context.Context, h *host.Host, outcomes []plan.Outcome) (*plan.Contents, error) {
	m, err := manifest.Load(h)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errors.New("describing the image: " + manifest.Path + " is missing")
	}
	added, fetched := []string{}, map[string]int64{}
	for _, o := range outcomes {
		for _, a := range o.Actions {
			added = append(added, a.Packages...)
			fetched[a.Target] = a.Fetched
		}
	}
	tailoring, err := h.Content(manifest.TailoringPath)
	if err != nil {
		return nil, err
	}
	c := &plan.Contents{
		Kubernetes: m.KubernetesVersion, Components: components(ctx, h, m), Tailoring: string(tailoring),
	}
	for _, p := range m.Packages {
		c.Packages = append(c.Packages,
			plan.Package{Name: p.Name, Version: p.Version, Added: slices.Contains(added, p.Name)})
	}
	for _, i := range m.Images {
		c.Images = append(c.Images, plan.ImageContents{Name: i.Name, Digest: i.Digest, Bytes: fetched[i.Name]})
	}
	return c, nil
}

// components are the downloads of an image and the programs of its container
// runtime.
func components(ctx context.Context, h *host.Host, m *manifest.Manifest) []plan.Component {
	var list []plan.Component
	for _, a := range m.Assets {
		if a.ID == pauseAsset {
			continue // an image
		}
		c := plan.Component{Name: a.ID, Version: a.Version, Origin: plan.FromDownload}
		for _, f := range a.Files {
			c.Bytes += f.Size
		}
		list = append(list, c)
	}
	for _, name := range runtimePrograms {
		if _, ok := m.Asset(name); ok {
			continue
		}
		c := plan.Component{Name: name, Origin: plan.FromPackage}
		if i := slices.IndexFunc(m.Packages, func(p manifest.Package) bool { return p.Name == name }); i >= 0 {
			c.Version = m.Packages[i].Version
		} else {
			c.Version, c.Origin = programVersion(ctx, h, name), plan.FromDistribution
		}
		list = append(list, c)
	}
	return list
}

// programVersion is the version that a program prints, or "unknown".
func programVersion(ctx context.Context, h *host.Host, name string) string {
	said, err := h.Run(ctx, host.Command{Argv: []string{name, "--version"}})
	if err != nil {
		return "unknown"
	}
	for _, word := range strings.Fields(string(said)) {
		if version := strings.TrimPrefix(word, "v"); version != "" && version[0] >= '0' && version[0] <= '9' {
			return version
		}
	}
	return "unknown"
}
