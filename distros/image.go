package distros

import (
	"fmt"
	"slices"
	"strings"
)

// BaseImage says where a base image is found on AWS.
type BaseImage struct {
	// Versions are those of Distro.Versions that it is of; empty means all.
	Versions []string
	// Owner is the AWS account that publishes it in the commercial regions,
	// Name the pattern of its name.
	Owner, Name string
	// ChinaOwner is the account in AWS China, where it is another one.
	ChinaOwner string
	// Parameter is the public SSM parameter that names the newest one; empty
	// where there is none. It and Name know {version} and {arch}.
	Parameter string
	// AMD64 and ARM64 are how the publisher spells the architectures.
	AMD64, ARM64 string
}

// For fills in a version and an architecture in Go's spelling.
func (b BaseImage) For(version, arch string) (BaseImage, error) {
	spelled, ok := map[string]string{"amd64": b.AMD64, "arm64": b.ARM64}[arch]
	if !ok || spelled == "" {
		return BaseImage{}, fmt.Errorf("there is no base image %s for the architecture %q", b.Name, arch)
	}
	if len(b.Versions) > 0 && !slices.Contains(b.Versions, version) {
		return BaseImage{}, fmt.Errorf("the base image %s is of the versions %s, not %q", b.Name, strings.Join(b.Versions, ", "), version)
	}
	fill := strings.NewReplacer("{version}", version, "{arch}", spelled).Replace
	b.Name, b.Parameter = fill(b.Name), fill(b.Parameter)
	return b, nil
}

// BaseImage finds the base image of a version, which for a rolling distribution
// is empty, and an architecture in Go's spelling.
func (d Distro) BaseImage(version, arch string) (BaseImage, error) {
	if len(d.Versions) > 0 && !slices.Contains(d.Versions, version) {
		return BaseImage{}, fmt.Errorf("%s has no version %q; known are %s", d.Name, version, strings.Join(d.Versions, ", "))
	}
	var err error
	for _, b := range d.BaseImages {
		var found BaseImage
		if found, err = b.For(version, arch); err == nil {
			return found, nil
		}
	}
	return BaseImage{}, err
}
