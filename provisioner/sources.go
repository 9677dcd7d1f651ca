package provisioner

import (
	"errors"
	"fmt"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

// Sources says from whom a node's assets come and what they must be.
type Sources struct {
	// Source is the publisher's ID, see asset.Origins; empty means the
	// lock's, or upstream.
	Source string `json:"source,omitempty"`
	// EKSBuildDate is the day of EKS' build, such as "2025-11-13"; needed for
	// its bucket when there is no lock.
	EKSBuildDate string `json:"eks_build_date,omitempty"`
	// Lock is the content of a lock file: nothing else is installed then.
	Lock *asset.Lock `json:"lock,omitempty"`
	// SBOM lays a bill of materials of the image beside its manifest.
	SBOM bool `json:"sbom,omitempty"`
}

// validate reports all problems at once. versions are the Spec's.
func (s Sources) validate(versions map[string]string) error {
	var errs []error
	for _, a := range asset.Table() {
		if _, set := versions[a.ID]; set && a.EKS != nil && s.Source == asset.EKSBucket && a.Version != "" {
			errs = append(errs, fmt.Errorf("versions[%q] has no effect with source = %q, which has it in Kubernetes' version", a.ID, s.Source))
		}
	}
	if s.Source != "" {
		_, err := asset.OriginByID(s.Source)
		errs = append(errs, err)
	}
	if s.EKSBuildDate != "" {
		if _, err := time.Parse(time.DateOnly, s.EKSBuildDate); err != nil {
			errs = append(errs, fmt.Errorf("eks_build_date %q must be a day, such as 2025-11-13", s.EKSBuildDate))
		}
		if s.Source != asset.EKSBucket && s.Lock == nil {
			errs = append(errs, fmt.Errorf("eks_build_date has no effect without source = %q", asset.EKSBucket))
		}
	}
	if s.Lock != nil {
		if err := s.Lock.Check(); err != nil {
			errs = append(errs, fmt.Errorf("the lock file: %w", err))
		}
	}
	return errors.Join(errs...)
}

// choice is the form of an asset that a machine gets.
func (s Spec) choice(a asset.Asset, arch, commands string) asset.Choice {
	return asset.Choice{
		Kubernetes: s.KubernetesVersion, Arch: arch, Commands: commands,
		Version: s.Versions[a.ID], SHA256: s.Checksums[a.ID], Source: s.SourceURL,
		Origin: s.Source, Date: s.EKSBuildDate, Lock: s.Lock,
	}
}

// Download is where an asset comes from, for those who fetch it elsewhere than
// on the machine. An asset that no node gets is an error.
func (s Spec) Download(id, arch string) (asset.Download, error) {
	a, err := knownAsset("download", id)
	if err != nil {
		return asset.Download{}, err
	}
	return a.For(s.choice(a, arch, ""))
}

// Choosable says why no machine, of whatever architecture, could get what every
// node needs: because a field is missing or contradicts the lock. It is for
// those who would rather know before there is a machine; Validate comes first.
func (s Spec) Choosable() error {
	for _, a := range asset.Table() {
		if a.Chosen || !a.NeededBy(s.KubernetesVersion) {
			continue
		}
		_, err := a.For(s.choice(a, "amd64", ""))
		_, other := a.For(s.choice(a, "arm64", ""))
		_, isLocked := s.Lock.Find(a.ID, s.KubernetesVersion, "arm64")
		switch {
		case err == nil || other == nil:
		case isLocked: // says more than that amd64 is not
			return other
		default:
			return err
		}
	}
	return nil
}
