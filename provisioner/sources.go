package provisioner

import (
	"fmt"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// Lock is the content of a lock file, with Locked downloads and LockedImages; `eksnode
// lock` writes one.
type (
	Lock        = asset.Lock
	Locked      = asset.Locked
	LockedImage = asset.LockedImage
)

// ParseLock reads a lock file for Sources.Lock. Unknown fields, contradictions and
// content that was edited by hand are errors.
func ParseLock(data []byte) (*Lock, error) { return asset.ParseLock(data) }

// ReadLock reads a lock file by its name, as ParseLock does.
func ReadLock(file string) (*Lock, error) {
	data, err := surface.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf(`%w; "eksnode lock" makes one`, err)
	}
	lock, err := ParseLock(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return lock, nil
}

// Sources selects the publisher of assets and the lock file.
type Sources struct {
	// Publisher of assets, `upstream` or `eks-bucket`. `upstream` means the
	// release sites of Kubernetes and of each project; `eks-bucket` means the
	// public bucket with EKS builds. Defaults to the publisher in the lock file,
	// or `upstream`.
	Source string `json:"source,omitempty" mapstructure:"source"`
	// Date of the EKS build, such as `2025-11-13`. Required with
	// `source = "eks-bucket"` and no lock file.
	EKSBuildDate string `json:"eks_build_date,omitempty" mapstructure:"eks_build_date"`
	// Write a CycloneDX 1.5 bill of materials to `/etc/eks/eksnode/sbom.cdx.json`
	// in the image. Defaults to `false`.
	SBOM bool `json:"sbom,omitempty" mapstructure:"sbom"`
	// Lock is the content of a lock file; nothing else is installed. Templates and
	// flags set it with Local.LockFile.
	Lock *Lock `json:"lock,omitempty" mapstructure:"-"`
}

// validateSources checks the publisher and the lock file.
func (s Spec) validateSources(p *problems) {
	for _, a := range asset.Table() {
		if _, set := s.Versions[a.ID]; set && a.EKS != nil && s.Source == asset.EKSBucket && a.Version != "" {
			p.add("%s has no effect with %s, which has the asset in Kubernetes' version",
				surface.Name("versions").Key(a.ID), surface.Name("source").Is(s.Source))
		}
	}
	if s.Source != "" {
		*p = append(*p, asset.CheckOrigin(s.Source))
	}
	if s.EKSBuildDate != "" {
		if _, err := time.Parse(time.DateOnly, s.EKSBuildDate); err != nil {
			p.add("{eks_build_date} %q must be a day, such as 2025-11-13", s.EKSBuildDate)
		}
		if s.Source != asset.EKSBucket && s.Lock == nil {
			p.add("{eks_build_date} has no effect without %s", surface.Name("source").Is(asset.EKSBucket))
		}
	}
	if s.Lock != nil {
		if err := s.Lock.Check(); err != nil {
			p.add("the lock file: %w", err)
		}
	}
}

// choice is the form of an asset for a machine.
func (s Spec) choice(a asset.Asset, arch, commands string) asset.Choice {
	return asset.Choice{
		Kubernetes: s.KubernetesVersion, Arch: arch, Commands: commands,
		Version: s.Archive(a.ID), SHA256: s.Checksums[a.ID], Source: s.SourceURL, AllowHTTP: s.AllowHTTP,
		Origin: s.Source, Date: s.EKSBuildDate, Lock: s.Lock,
	}
}

// Choosable returns the reason why no machine of any architecture could get the
// assets that every node needs, or every node of the spec's distribution: a field is
// missing or contradicts the lock. It lets a caller fail before a machine exists. Call
// Validate first.
func (s Spec) Choosable() error {
	for _, a := range asset.Table() {
		some, all := s.share(a)
		if a.Chosen && (all == 0 || some < all) || !a.NeededBy(s.KubernetesVersion) {
			continue
		}
		_, err := a.For(s.choice(a, "amd64", ""))
		_, other := a.For(s.choice(a, "arm64", ""))
		_, isLocked := s.Lock.Find(a.ID, s.KubernetesVersion, "arm64")
		switch {
		case err == nil || other == nil:
		case isLocked: // says more than that amd64 is missing
			return other
		default:
			return err
		}
	}
	return nil
}

// Contents are the versions of all assets in an image of this spec, by the asset's
// ID. They equal those in the image's manifest but are known before the build.
func Contents(spec Spec, d distros.Distro, arch string) (map[string]string, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	n, err := newNode(spec, d, arch)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, download := range n.downloads {
		versions[download.ID] = download.Version
	}
	for _, w := range n.containers {
		if w.keep {
			versions[pauseAsset] = w.Tag()
		}
	}
	return versions, nil
}
