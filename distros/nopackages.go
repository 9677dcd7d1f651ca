package distros

import (
	"context"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// packageless is for systems without a package manager: everything they need is
// in their image or comes as an asset.
type packageless struct{ manager }

// NoPackageManager is for systems whose image has all packages.
func NoPackageManager() PackageManager {
	return packageless{manager{name: "none", refreshing: "nothing"}}
}

func (packageless) Installed(context.Context, *host.Host, []string) (map[string]string, error) {
	return map[string]string{}, nil
}

// Install refuses all packages; the distribution's own lists are empty.
func (packageless) Install(_ context.Context, _ *host.Host, names []string) error {
	return while(installing, none(names))
}

// Pinned implements PackageManager.
func (packageless) Pinned(name, _ string) (string, error) { return "", none([]string{name}) }

func (packageless) Hold(_ context.Context, _ *host.Host, names []string) error {
	return while(holding, none(names))
}

func (packageless) Held(*host.Host, []string) ([]string, error) { return nil, nil }

func (packageless) Remove(_ context.Context, _ *host.Host, names []string) error {
	return while(removing, none(names))
}

func (packageless) Clean(context.Context, *host.Host) error { return nil }

// none returns the error for packages without a package manager.
func none(names []string) error {
	return surface.Errorf("this distribution has no package manager and so no package %s; leave %s",
		strings.Join(names, ", "), surface.Words{HCL: "packages empty", Flags: "--packages out"})
}

// HasPackages reports whether the distribution has a package manager.
func (d Distro) HasPackages() bool {
	_, without := d.PackageManager.(packageless)
	return !without
}
