// Package image brings container images to a machine without a container
// runtime's help: by digest, from wherever their blobs are, as one OCI archive
// that holds what this machine needs, every byte of it verified.
package image

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Reference names one image for good.
type Reference struct {
	// Name is what pods call it, such as "registry.k8s.io/pause:3.10".
	Name string
	// Digest is that of its manifest or of its list of manifests, such as
	// "sha256:…"; empty where a lock file has it.
	Digest string
}

// ParseReference reads NAME:TAG@DIGEST, or NAME:TAG. The registry must be
// named: nothing is assumed to be Docker's.
func ParseReference(text string) (Reference, error) {
	tagged, digest, pinned := strings.Cut(text, "@")
	host, rest, ok := strings.Cut(tagged, "/")
	switch {
	case !ok || !strings.ContainsAny(host, ".:") && host != "localhost":
		return Reference{}, fmt.Errorf("%q names no registry; write it out, such as docker.io/library/busybox:1.37", text)
	case host == "docker.io" && !strings.Contains(rest, "/"): // the kubelet asks for it by this name
		return Reference{}, fmt.Errorf("%q: write docker.io/library/%s, which is its whole name", text, rest)
	}
	tag, err := name.NewTag(tagged, name.StrictValidation)
	if err != nil {
		return Reference{}, fmt.Errorf("%q must be REGISTRY/REPOSITORY:TAG@sha256:DIGEST: %w", text, err)
	}
	if tag.TagStr() == "latest" && !pinned {
		return Reference{}, fmt.Errorf("%q: latest is no version; name one, or add @sha256:DIGEST", text)
	}
	if pinned {
		if _, err := sumOf(digest); err != nil {
			return Reference{}, fmt.Errorf("%q: its digest must be sha256: and 64 hexadecimal digits", text)
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
