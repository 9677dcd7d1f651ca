package distros

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// BaseImage describes a base image on AWS.
type BaseImage struct {
	// Versions are the versions of the distribution that the image contains;
	// empty means all.
	Versions []string `json:"-"`
	// Owner is the AWS account that publishes the image in the commercial
	// regions, and Name the pattern of its name.
	Owner string `json:"owner"`
	Name  string `json:"name"`
	// ChinaOwner is the account in AWS China, if it differs.
	ChinaOwner string `json:"china_owner,omitempty"`
	// Parameter is the public SSM parameter with the newest image, if there is
	// one. Parameter and Name may contain {version}, {arch} and {kernel}.
	Parameter string `json:"ssm_parameter,omitempty"`
	// Kernels are the lines of kernels by which the publisher offers images; empty means one.
	Kernels []string `json:"-"`
	// AMD64 and ARM64 are the publisher's names of the architectures.
	AMD64 string `json:"-"`
	ARM64 string `json:"-"`
	// Sources are public pages or files of others with the account, the form of the
	// name, or both. Empty means that none was found.
	Sources []string `json:"-"`
}

// For fills in a version, an architecture in Go's spelling, and the line of a kernel; empty
// means the publisher's default.
func (b BaseImage) For(version, arch, kernel string) (BaseImage, error) {
	spelled, ok := map[string]string{"amd64": b.AMD64, "arm64": b.ARM64}[arch]
	if !ok || spelled == "" {
		return BaseImage{}, fmt.Errorf("the base image %s does not exist for the architecture %q", b.Name, arch)
	}
	if len(b.Versions) > 0 && !slices.Contains(b.Versions, version) {
		return BaseImage{}, fmt.Errorf("the base image %s exists for the versions %s, not %q", b.Name, strings.Join(b.Versions, ", "), version)
	}
	if kernel != "" && !slices.Contains(b.Kernels, kernel) {
		return BaseImage{}, fmt.Errorf("the publisher has no images by the kernel %q; known are %s", kernel,
			cmp.Or(strings.Join(b.Kernels, ", "), "none"))
	}
	fill := func(text, always string) string {
		return strings.NewReplacer("{version}", version, "{arch}", spelled, "{kernel}", cmp.Or(kernel, always)).Replace(text)
	}
	b.Name, b.Parameter = fill(b.Name, "*"), fill(b.Parameter, "default")
	return b, nil
}

// BaseImage returns the base image of a version (empty for a rolling
// distribution), an architecture in Go's spelling, and the line of a kernel.
func (d Distro) BaseImage(version, arch, kernel string) (BaseImage, error) {
	if len(d.Versions) > 0 && !slices.Contains(d.Versions, version) {
		return BaseImage{}, fmt.Errorf("%s has no version %q; known are %s", d.Name, version, strings.Join(d.Versions, ", "))
	}
	var err error
	for _, b := range d.BaseImages {
		var found BaseImage
		if found, err = b.For(version, arch, kernel); err == nil {
			return found, nil
		}
	}
	return BaseImage{}, err
}
