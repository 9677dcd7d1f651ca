package distros

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
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
		return BaseImage{}, fmt.Errorf("the base image %s exists for the versions %s, not %q", b.Name,
			strings.Join(b.Versions, ", "), version)
	}
	if kernel != "" && !slices.Contains(b.Kernels, kernel) {
		return BaseImage{}, fmt.Errorf("the publisher has no images by the kernel %q; known are %s", kernel,
			cmp.Or(strings.Join(b.Kernels, ", "), "none"))
	}
	fill := func(text, always string) string {
		return strings.NewReplacer("{version}", version, "{arch}", spelled, "{kernel}", cmp.Or(kernel, always)).
			Replace(text)
	}
	b.Name, b.Parameter = fill(b.Name, "*"), fill(b.Parameter, "default")
	return b, nil
}

// BaseImage returns the base image of a version (empty for a rolling
// distribution), an architecture in Go's spelling, and the line of a kernel.
func (d Distro) BaseImage(version, arch, kernel string) (BaseImage, error) {
	if len(d.Versions) > 0 && !slices.Contains(d.Versions, version) {
		return BaseImage{}, fmt.Errorf("%s has no version %q; known are %s", d.Name, version,
			strings.Join(d.Versions, ", "))
	}
	err := fmt.Errorf("%s has no base image", d.Name)
	for _, b := range d.BaseImages {
		var found BaseImage
		if found, err = b.For(version, arch, kernel); err == nil {
			return found, nil
		}
	}
	return BaseImage{}, err
}

// CloudImage is a distribution's own disk image, for builds without a machine.
type CloudImage struct {
	// Version is the version of the distribution; empty for a rolling one. Kernel names
	// the publisher's second image, with another kernel; empty for the usual one.
	Version, Kernel string
	// URL is the publisher's address. {arch} means the architecture, and the name of
	// the file may be a pattern; the last match in the checksum file counts. Sums is the
	// address of that file.
	URL, Sums string
	// Key is the publisher's public key: the name of a file in the folder keys here, and its
	// content from CloudImageByName; empty without a signature that can be checked. The key
	// has signed the checksum file. Signature is the address of the signature; empty if the
	// file itself has it. With ImageSignature, the key has signed the image instead. {sums}
	// and {url} mean the other addresses.
	Key, Signature, ImageSignature string
	// AMD64 and ARM64 are the publisher's names of the architectures.
	AMD64, ARM64 string
}

// keys has the publishers' public keys. Each has its fingerprint and source as a comment.
//
//go:embed keys
var keys embed.FS

// imageName is the name of a cloud image, such as debian-13, debian-13-cloud or arch.
func (d Distro) imageName(i CloudImage) string {
	return strings.TrimRight(d.ID+"-"+i.Version+"-"+i.Kernel, "-")
}

// CloudImages lists the names of all cloud images.
func CloudImages() []string {
	var names []string
	for _, d := range All() {
		for _, i := range d.CloudImages {
			names = append(names, d.imageName(i))
		}
	}
	return slices.Compact(names)
}

// CloudImageByName returns a cloud image, such as debian-13, or debian for the newest
// version, for an architecture in Go's spelling.
func CloudImageByName(name, arch string) (CloudImage, error) {
	known := false
	for _, d := range All() {
		for _, image := range slices.Backward(d.CloudImages) {
			if name != d.imageName(image) && (name != d.ID || image.Kernel != "") {
				continue
			}
			known = true
			spelled := map[string]string{"amd64": image.AMD64, "arm64": image.ARM64}[arch]
			if spelled == "" {
				continue
			}
			for _, address := range []*string{&image.URL, &image.Sums, &image.Signature, &image.ImageSignature} {
				filled := strings.NewReplacer("{arch}", spelled, "{sums}", image.Sums, "{url}", image.URL)
				*address = filled.Replace(*address)
			}
			if image.Key == "" {
				return image, nil
			}
			key, err := keys.ReadFile("keys/" + image.Key + ".asc")
			image.Key = string(key)
			return image, err
		}
	}
	if known {
		return CloudImage{}, fmt.Errorf("the publisher has no cloud image %s for the architecture %s", name, arch)
	}
	return CloudImage{}, fmt.Errorf("%q is neither a file, nor an address, nor the name of a cloud image; "+
		"known are %s%s", name, strings.Join(CloudImages(), ", "), show.Meant(name, CloudImages()))
}
