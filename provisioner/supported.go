package provisioner

import (
	"errors"
	"maps"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
)

// supportedBy returns the settings that contradict the distribution or have no
// effect on it, all problems at once.
func (s Spec) supportedBy(d distros.Distro, minor int) error {
	var errs []error
	if s.Distro != "" && s.Distro != d.ID {
		errs = append(errs, surface.Errorf("%s is %q, but this machine is %q", fieldDistro, s.Distro, d.ID))
	}
	if d.NewestKubernetes > 0 && minor > d.NewestKubernetes {
		errs = append(errs, surface.Errorf("%s %q does not run on %s: the newest is 1.%d; %s", fieldKubernetesVersion, s.KubernetesVersion, d.Name, d.NewestKubernetes, d.Differs))
	}
	for _, a := range asset.Table() {
		if !a.Chosen || slices.Contains(d.Upstream, a.ID) {
			continue
		}
		for _, field := range []struct {
			name   surface.Name
			values map[string]string
		}{{fieldVersions, s.Versions}, {fieldChecksums, s.Checksums}} {
			if _, set := field.values[a.ID]; set {
				errs = append(errs, surface.Errorf("%s has no effect on %s, which has %s as a package", field.name.Key(a.ID), d.Name, a.ID))
			}
		}
	}
	if !d.HasPackages() {
		for _, name := range s.Packages {
			errs = append(errs, surface.Errorf("%s: %s has no package manager, so %q cannot be installed", fieldPackages, d.Name, name))
		}
	}
	for _, settings := range d.Settings() {
		for _, r := range settings.Removed {
			if _, versioned := s.PackageVersions[r.Package]; versioned || slices.Contains(s.Packages, r.Package) {
				errs = append(errs, surface.Errorf("%s: %q contradicts what a node needs on %s: %s", fieldPackages, r.Package, d.Name, r.Why))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.PackageVersions)) {
		if _, err := d.PackageManager.Pinned(name, s.PackageVersions[name]); err != nil {
			errs = append(errs, surface.Errorf("%s: %w", fieldPackageVersions.Key(name), err))
		}
	}
	for _, o := range s.options() {
		if o.needs != "" && !d.Can(o.needs) {
			errs = append(errs, surface.Errorf("%s: %s does not support it", surface.Name(o.needs), d.Name))
		}
	}
	if s.FIPS && d.FIPS.Enable == "" {
		errs = append(errs, surface.Errorf("%s: %s has no FIPS mode: %s", fieldFips, d.Name, d.FIPS.None))
	}
	return errors.Join(errs...)
}
