// Package image brings container images to a machine without a container runtime.
// An image is selected by digest and comes from an archive or a registry. The
// machine gets one OCI archive with the parts that it needs, and every byte is
// verified.
package image

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Reference names exactly one image.
type Reference struct {
	// Name is the name in a pod's spec, such as "registry.k8s.io/pause:3.10".
	Name string
	// Digest is the digest of the image's manifest or list of manifests, such as
	// "sha256:…". It is empty when a lock file has the digest.
	Digest string
}

// ParseReference reads NAME:TAG@DIGEST or NAME:TAG. The name must contain the
// registry: there is no default registry.
func ParseReference(text string) (Reference, error) {
	tagged, digest, pinned := strings.Cut(text, "@")
	host, rest, ok := strings.Cut(tagged, "/")
	switch {
	case !ok || !strings.ContainsAny(host, ".:") && host != "localhost":
		return Reference{}, fmt.Errorf("%q names no registry; write the full name, such as docker.io/library/busybox:1.37", text)
	case host == "docker.io" && !strings.Contains(rest, "/"): // the kubelet uses this name
		return Reference{}, fmt.Errorf("%q: write the full name, docker.io/library/%s", text, rest)
	}
	tag, err := name.NewTag(tagged, name.StrictValidation)
	if err != nil {
		return Reference{}, fmt.Errorf("%q must be REGISTRY/REPOSITORY:TAG@sha256:DIGEST: %w", text, err)
	}
	if tag.TagStr() == "latest" && !pinned {
		return Reference{}, fmt.Errorf("%q: latest is no version; name a version, or add @sha256:DIGEST", text)
	}
	if pinned {
		if _, err := sumOf(digest); err != nil {
			return Reference{}, fmt.Errorf("%q: the digest must be sha256: and 64 hexadecimal digits", text)
		}
	}
	return Reference{Name: tagged, Digest: digest}, nil
}

// Tag is the version in the name.
func (r Reference) Tag() string { return r.Name[strings.LastIndex(r.Name, ":")+1:] }

// Repository is the name without the tag.
func (r Reference) Repository() string { return r.Name[:strings.LastIndex(r.Name, ":")] }

func (r Reference) String() string {
	if r.Digest == "" {
		return r.Name
	}
	return r.Name + "@" + r.Digest
}
