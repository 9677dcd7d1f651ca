package diskaudit

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/containerd"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// Whole returns a manifest with every package and container image of a machine. The
// downloads are those of the machine's own manifest.
func Whole(ctx context.Context, h *host.Host) (*manifest.Manifest, error) {
	m, err := manifest.Load(h)
	if err != nil {
		return nil, err
	}
	if m == nil {
		m = &manifest.Manifest{}
	}
	installed, err := packages.ReadInstalled(ctx, h)
	if err != nil {
		return nil, err
	}
	m.Packages, m.Images = nil, nil
	for _, owner := range slices.Sorted(maps.Keys(installed)) {
		m.Packages = append(m.Packages, manifest.Package{Name: installed[owner].Name, Version: installed[owner].Version})
	}
	images, err := containerd.Images(ctx, h)
	if err != nil {
		return nil, err
	}
	for _, i := range images {
		m.Images = append(m.Images, manifest.Image{Name: i.Name, Digest: i.Digest})
	}
	manager := "dnf"
	for path, name := range map[string]string{"/var/lib/dpkg/status": "apt", "/var/lib/pacman/local": "pacman"} {
		there, err := h.Exists(path)
		if err != nil {
			return nil, err
		}
		if there {
			manager = name
		}
	}
	m.PackageManager = cmp.Or(m.PackageManager, manager)
	return m, nil
}
