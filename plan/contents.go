package plan

// Contents are the versions and sizes of what an image has after a provision.
type Contents struct {
	// Kubernetes is the version of the kubelet, such as 1.36.3.
	Kubernetes string `json:"kubernetes"`
	// Components are the programs that a node needs, such as containerd.
	Components []Component `json:"components"`
	// Packages are the distribution's packages that the spec demands.
	Packages []Package `json:"packages,omitempty"`
	// Images are the container images that containerd has.
	Images []ImageContents `json:"images,omitempty"`
}

// Origin says where a component comes from.
type Origin string

// The origins.
const (
	FromDownload     Origin = "download"     // a publisher's file
	FromPackage      Origin = "package"      // the distribution's package
	FromDistribution Origin = "distribution" // part of the distribution's own image
)

// Component is one program, or several from one archive, with its version.
type Component struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Origin  Origin `json:"origin"`
	// Bytes is the size of the component's files; 0 when unknown.
	Bytes int64 `json:"bytes,omitempty"`
}

// Package is one package of the distribution.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Added says that this run installed the package.
	Added bool `json:"added"`
}

// ImageContents is one container image.
type ImageContents struct {
	// Name is the name that pods use.
	Name   string `json:"name"`
	Digest string `json:"digest"`
	// Bytes is the size of the image's archive; 0 when unknown.
	Bytes int64 `json:"bytes,omitempty"`
}
