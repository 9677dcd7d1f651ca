// Package image brings container images to a machine without a container runtime.
// An image is selected by digest and comes from an archive or a registry. The
// machine gets one OCI archive with the parts that it needs, and every byte is
// verified.
package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// Archive is an OCI archive in a file of the running system: the output of `docker
// save` since version 25, `skopeo copy … oci-archive:` and `ctr images export`. It
// is a Source.
type Archive struct {
	file  *os.File
	blobs map[string]span
	index document
}

// span is the place of a member's content in the file.
type span struct{ from, size int64 }

// OpenArchive opens an archive. The caller closes it.
func OpenArchive(name string) (a *Archive, err error) {
	file, err := surface.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the archive of images: %w", err)
	}
	a = &Archive{file: file, blobs: map[string]span{}}
	if err = a.list(); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the archive of images %s: %w", name, err), file.Close())
	}
	return a, nil
}

// list finds the places of the blobs.
func (a *Archive) list() error {
	var index []byte
	for archive := tar.NewReader(a.file); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the file is not a tar archive (unpack a compressed archive first): %w", err)
		}
		if head.Typeflag != tar.TypeReg {
			continue
		}
		at, err := a.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		clean := path.Clean(head.Name)
		if sum, isBlob := strings.CutPrefix(clean, "blobs/sha256/"); isBlob {
			a.blobs["sha256:"+sum] = span{at, head.Size}
		}
		if clean == "index.json" {
			if index, err = io.ReadAll(io.LimitReader(archive, mostDocument+1)); err != nil {
				return err
			}
			if len(index) > mostDocument {
				return fmt.Errorf("index.json has more than %d bytes", mostDocument)
			}
		}
	}
	if index == nil {
		return errors.New("the archive has no index.json, so it is not an OCI archive; docker save (since version " +
			"25), skopeo and ctr write OCI archives")
	}
	if err := strictjson.ReadKnown(index, &a.index); err != nil {
		return fmt.Errorf("index.json cannot be read: %w", err)
	}
	return nil
}

// Has says whether the archive has a blob or manifest.
func (a *Archive) Has(digest string) bool {
	_, there := a.blobs[digest]
	return there
}

// Resolve returns the digest that a name has in the archive; empty when the archive
// does not have the name.
func (a *Archive) Resolve(r Reference) (digest string) {
	for _, m := range a.index.Manifests {
		if m.Annotations[nameAnnotation] == r.Name || m.Annotations[tagAnnotation] == r.Name {
			return m.Digest
		}
	}
	return ""
}

// Open implements Source.
func (a *Archive) Open(_ context.Context, r Reference, b Blob, _ bool, from int64) (io.ReadCloser, error) {
	at, there := a.blobs[b.Digest]
	if !there {
		return nil, fmt.Errorf("the image %s is incomplete in %s: %s is missing: %w", r, a.file.Name(), b.Digest,
			fs.ErrNotExist)
	}
	return io.NopCloser(io.NewSectionReader(a.file, at.from+min(from, at.size), max(at.size-from, 0))), nil
}

// Close closes the file.
func (a *Archive) Close() error { return a.file.Close() }

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
		return Reference{}, fmt.Errorf("%q names no registry; write the full name, such as "+
			"docker.io/library/busybox:1.37", text)
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
