package provisioner

import (
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

// releases are the releases of the spec's distribution; nil without the field
// distro.
func (s Spec) releases() ([]distros.Distro, error) {
	if s.Distro == "" {
		return nil, nil
	}
	d, err := distros.ByID(s.Distro)
	if err != nil {
		return nil, err
	}
	return d.EveryRelease(), nil
}

// validateDistro refuses settings that no release of the spec's distribution
// supports. The errors are those of the newest release, in the words of the
// builder machine.
func (s Spec) validateDistro() error {
	releases, err := s.releases()
	for _, d := range releases {
		if err = s.supportedBy(d); err == nil {
			return nil
		}
	}
	return err
}

// supportedBy returns the settings that contradict the distribution or have no
// effect on it, all problems at once.
func (s Spec) supportedBy(d distros.Distro) error {
	var p problems
	if s.Distro != "" && s.Distro != d.ID {
		p.add("{distro} is %q, but this machine is %q", s.Distro, d.ID)
	}
	if d.NewestKubernetes > 0 && s.minor() > d.NewestKubernetes {
		p.add("{kubernetes_version} %q does not run on %s: the newest is 1.%d; %s", s.KubernetesVersion, d.Name,
			d.NewestKubernetes, d.Differs)
	}
	s.checkArchives(d, &p)
	s.checkRepositories(d, &p)
	p = append(p, s.checkHardening(d))
	if !d.HasPackages() {
		for _, name := range s.Packages {
			p.add("{packages}: %s has no package manager, so %q cannot be installed", d.Name, name)
		}
	}
	for _, settings := range d.Settings() {
		for _, r := range settings.Removed {
			_, versioned := s.PackageVersions[r.Package]
			if (versioned || slices.Contains(s.Packages, r.Package)) && misfits(r.Package) == "" {
				p.add("{packages}: %q contradicts what a node needs on %s: %s", r.Package, d.Name, r.Why)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.PackageVersions)) {
		if _, err := d.PackageManager.Pinned(name, s.PackageVersions[name]); err != nil {
			p.add("%s: %w", surface.Name("package_versions").Key(name), err)
		}
	}
	for _, o := range s.options() {
		if o.Needs != "" && !d.Can(o.Needs) {
			why := "eksnode knows no packages for it"
			if !d.HasPackages() {
				why = "it has no package manager"
			}
			p.add("%s: %s does not support it: %s", surface.Name(o.Needs), d.Name, why)
		}
	}
	p = append(p, s.checkDriver(d))
	if len(s.DNSServers) > 0 && d.Network.DNS.Unit == "" {
		p.add("{dns_servers}: eksnode cannot set name servers of %s on %s", d.Network.Name, d.Name)
	}
	if s.ownContainerd() && len(d.Packages[distros.ContainerRuntime]) == 0 && !d.FromUpstream() {
		p.add("{containerd}: %s has containerd in its base image; leave the field out, or choose another base image",
			d.Name)
	}
	if s.Kernel != "" && len(d.PackageManager.Kernels().Offered) == 0 {
		p.add("{kernel}: the image of %s keeps its kernel; choose another base image", d.Name)
	}
	switch {
	case s.FIPS != "" && d.FIPS.Enable == "":
		p.add("{fips}: %s has no FIPS mode: %s", d.Name, d.FIPS.None)
	case s.FIPS == fipsEnable && len(d.FIPS.Setup) == 0:
		p.add("{fips}: %s has no tool that switches FIPS mode on by itself; %s, with %s", d.Name, d.FIPS.Enable,
			surface.Name("fips").Is(fipsCheck))
	}
	return errors.Join(p...)
}

// checkArchives refuses settings of archives that the distribution does not
// download, and of packages that archives replace.
func (s Spec) checkArchives(d distros.Distro, p *problems) {
	chosen := s.withContainerd(d)
	for _, a := range asset.Table() {
		if downloads(chosen, a) {
			continue
		}
		has := "as a package"
		if len(d.Packages[distros.ContainerRuntime]) == 0 {
			has = "in its base image"
		}
		for _, field := range []struct {
			name   surface.Name
			values map[string]string
		}{{"versions", s.Versions}, {"checksums", s.Checksums}} {
			if _, set := field.values[a.ID]; set {
				p.add("%s has no effect on %s, which has %s %s", field.name.Key(a.ID), d.Name, a.ID, has)
			}
		}
	}
	for _, name := range replaced(d, chosen) {
		if _, versioned := s.PackageVersions[name]; versioned || slices.Contains(s.Packages, name) {
			field := surface.Name("packages")
			if versioned {
				field = "package_versions"
			}
			p.add("%s: the package %q contradicts %s, which takes containerd and runc from upstream archives on %s; "+
				"leave the package out", field, name, s.archivesBy(), d.Name)
		}
	}
}

func downloads(d distros.Distro, a asset.Asset) bool {
	return !a.Chosen || slices.Contains(d.Upstream, a.ID)
}

const newestContainerd = "2"

// Containerds lists the values of the field containerd beside complete versions: a major
// version, and the lines of it whose newest release eksnode knows.
func Containerds() []string {
	list := []string{newestContainerd}
	for _, r := range lifecycle.Of("containerd") {
		if r.Newest != "" {
			list = append(list, r.Version)
		}
	}
	return list
}

var containerdForm = regexp.MustCompile(`^` + newestContainerd + `\.[0-9]+\.[0-9]+$`)

// ownContainerd says whether the field containerd sets a line or a complete version, which
// only upstream's archives have.
func (s Spec) ownContainerd() bool { return strings.Contains(s.Containerd, ".") }

// validateContainerd refuses an unknown value, and a version of the archive that
// contradicts the field.
func (s Spec) validateContainerd(p *problems) {
	if s.Containerd == "" {
		return
	}
	if !slices.Contains(Containerds(), s.Containerd) && !containerdForm.MatchString(s.Containerd) {
		p.add("{containerd} %q is not known; known are %s, and complete versions such as %s", s.Containerd,
			strings.Join(Containerds(), ", "), lifecycle.Default("containerd"))
		return
	}
	if v, set := s.Versions["containerd"]; set && v != s.Containerd && !strings.HasPrefix(v, s.Containerd+".") {
		p.add("%s contradicts %s", surface.Name("versions").Entry("containerd", v),
			surface.Name("containerd").Is(s.Containerd))
	}
}

// Archive is the version of an asset that the spec chooses; empty if the asset's table or
// the lock does.
func (s Spec) Archive(id string) string {
	if v := s.Versions[id]; v != "" || id != "containerd" {
		return v
	}
	if containerdForm.MatchString(s.Containerd) {
		return s.Containerd
	}
	for _, r := range lifecycle.Of(id) {
		if r.Version == s.Containerd && s.Lock == nil {
			return r.Newest
		}
	}
	return ""
}

// lastWithContainerd1 is the last kubelet that supports containerd 1
// (https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html).
// containerd's own list for 1.36 begins with 2.2
// (https://containerd.io/releases/#kubernetes-support).
const lastWithContainerd1 = 35

// withContainerd returns the distribution with containerd and runc from upstream archives
// where its own containerd is too old for the field containerd or for the kubelet.
func (s Spec) withContainerd(d distros.Distro) distros.Distro {
	if s.ownContainerd() {
		return d.WithContainerd(math.MaxInt)
	}
	if s.Containerd != newestContainerd && s.minor() <= lastWithContainerd1 {
		return d
	}
	return d.WithContainerd(2)
}

// archivesBy is the setting by which archives replace packages.
func (s Spec) archivesBy() surface.Words {
	if s.Containerd != "" {
		return surface.Name("containerd").Is(s.Containerd)
	}
	return surface.Name("kubernetes_version").Is(s.KubernetesVersion)
}

// replaced are the packages of the container runtime that archives replace.
func replaced(d, chosen distros.Distro) []string {
	if len(chosen.Packages[distros.ContainerRuntime]) > 0 {
		return nil
	}
	return d.Packages[distros.ContainerRuntime]
}

// Downloads says whether machines of the spec's distribution download an asset, in any
// release. Without the field distro, they download all assets. Call Validate first.
func (s Spec) Downloads(id string) bool {
	return slices.ContainsFunc(asset.Table(), func(a asset.Asset) bool {
		some, all := s.share(a)
		return a.ID == id && (all == 0 || some > 0)
	})
}

// share counts the releases of the spec's distribution, and those that download an
// asset. Without the field distro, both are 0.
func (s Spec) share(a asset.Asset) (some, all int) {
	releases, _ := s.releases() // Validate has reported an unknown distribution
	for _, d := range releases {
		if downloads(s.withContainerd(d), a) {
			some++
		}
	}
	return some, len(releases)
}
