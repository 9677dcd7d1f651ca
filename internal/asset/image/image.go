package image

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/strictjson"
)

// Source has manifests and blobs by their digest.
type Source interface {
	// Open opens one of an image from one byte on; manifest says which of the
	// two it is: a registry has them at different places. Whoever reads verifies,
	// and a source that keeps what it opens keeps no more than b.Size bytes.
	Open(ctx context.Context, r Reference, b Blob, manifest bool, from int64) (io.ReadCloser, error)
}

// Blob is a part of an image.
type Blob struct {
	Digest string
	Size   int64 // bytes
}

// Image is what one machine needs of an image.
type Image struct {
	// Digest is that of the manifest for the machine's architecture.
	Digest string
	// Blobs are the configuration and the layers.
	Blobs []Blob

	mediaType string
	manifest  []byte
}

// The media types of lists of manifests and of a manifest.
const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
)

// descriptor points to a blob
// (https://github.com/opencontainers/image-spec/blob/main/descriptor.md).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// platform is what a manifest or a configuration is for.
type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

// document is a manifest or a list of them.
type document struct {
	MediaType string       `json:"mediaType"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
	Manifests []descriptor `json:"manifests"`
}

// Limits on what a manifest may ask for.
const (
	// mostDocument is the largest manifest or configuration that is read, in
	// bytes: registries take none above 4 MiB.
	mostDocument = 4 << 20
	// mostLayers is how many the kernel can lay over each other, OVL_MAX_STACK in
	// https://github.com/torvalds/linux/blob/master/fs/overlayfs/params.h.
	mostLayers = 500
	// mostImage is the largest image, in bytes.
	mostImage = 128 << 30
)

// Choose finds what a machine of an architecture (in Go's spelling) needs of an
// image, which must have a digest.
func Choose(ctx context.Context, from Source, r Reference, arch string) (*Image, error) {
	d, text, err := readManifest(ctx, from, r, r.Digest)
	digest := r.Digest
	if err == nil && len(d.Manifests) > 0 {
		if digest, err = d.pick(arch); err == nil {
			d, text, err = readManifest(ctx, from, r, digest)
		}
		if err == nil && len(d.Manifests) > 0 {
			err = fmt.Errorf("%s is a list of manifests in a list of manifests", digest)
		}
	}
	if err == nil {
		err = d.check(ctx, from, r, arch)
	}
	var source sourceError
	if errors.As(err, &source) {
		return nil, source.error
	}
	if err != nil {
		return nil, fmt.Errorf("choosing from the image %s: %w", r, err)
	}
	i := &Image{Digest: digest, mediaType: d.MediaType, manifest: text}
	if i.mediaType == "" {
		i.mediaType = manifestType
	}
	for _, part := range append([]descriptor{d.Config}, d.Layers...) {
		i.Blobs = append(i.Blobs, Blob{part.Digest, part.Size})
	}
	return i, nil
}

// readManifest reads and verifies a manifest or a list of them.
func readManifest(ctx context.Context, from Source, r Reference, digest string) (document, []byte, error) {
	var d document
	text, err := readVerified(ctx, from, r, digest, true)
	if err != nil {
		return d, nil, err
	}
	if err := strictjson.ReadKnown(text, &d); err != nil {
		return d, nil, fmt.Errorf("its manifest %s cannot be read: %w", digest, err)
	}
	if len(d.Manifests) == 0 && d.Config.Digest == "" {
		return d, nil, fmt.Errorf("%s is neither a manifest nor a list of them", digest)
	}
	return d, text, nil
}

// sourceError is a source's own, which names the image already.
type sourceError struct{ error }

// readVerified reads a small part of an image.
func readVerified(ctx context.Context, from Source, r Reference, digest string, manifest bool) (text []byte, err error) {
	v, err := newVerifier(digest)
	if err != nil {
		return nil, err
	}
	body, err := from.Open(ctx, r, Blob{digest, mostDocument}, manifest, 0)
	if err != nil {
		return nil, sourceError{err}
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if text, err = io.ReadAll(io.LimitReader(body, mostDocument+1)); err != nil {
		return nil, err
	}
	if len(text) > mostDocument {
		return nil, fmt.Errorf("%s has more than %d bytes", digest, mostDocument)
	}
	_, _ = v.hash.Write(text) // a hash never fails
	return text, v.check()
}

// pick finds the manifest for an architecture in a list.
func (d document) pick(arch string) (digest string, err error) {
	var known []string
	for _, m := range d.Manifests {
		switch {
		case m.Platform == nil || m.Platform.OS != "linux":
		case m.Platform.Architecture == arch:
			return m.Digest, nil
		case len(known) < mostShown && !slices.Contains(known, shown(m.Platform.Architecture)):
			known = append(known, shown(m.Platform.Architecture))
		}
	}
	return "", fmt.Errorf("it is not there for linux/%s, but for %s", arch, strings.Join(known, ", "))
}

// check makes sure that a manifest is of an image for the machine: one that is
// in no list says so only in its configuration.
func (d document) check(ctx context.Context, from Source, r Reference, arch string) error {
	if err := d.checkParts(); err != nil {
		return err
	}
	text, err := readVerified(ctx, from, r, d.Config.Digest, false)
	if err != nil {
		return err
	}
	var config platform
	if err := strictjson.ReadKnown(text, &config); err != nil {
		return fmt.Errorf("its configuration %s cannot be read: %w", d.Config.Digest, err)
	}
	if config.OS != "linux" || config.Architecture != arch {
		return fmt.Errorf("it is for %s/%s, but the machine is linux/%s", shown(config.OS), shown(config.Architecture), arch)
	}
	return nil
}

// checkParts makes sure that there is an end to what a manifest asks for.
func (d document) checkParts() error {
	if len(d.Layers) > mostLayers {
		return fmt.Errorf("it has %d layers, and a node can mount %d", len(d.Layers), mostLayers)
	}
	left := int64(mostImage)
	for _, part := range append([]descriptor{d.Config}, d.Layers...) {
		if _, err := sumOf(part.Digest); err != nil {
			return err
		}
		switch {
		case part.Size < 0:
			return fmt.Errorf("the size of %s is %d bytes", part.Digest, part.Size)
		case part.Size > left: // a sum of sizes could overflow
			return fmt.Errorf("it has more than %d bytes", int64(mostImage))
		}
		left -= part.Size
	}
	return nil
}

// mostShown is how many names a message shows.
const mostShown = 20

// shown is a short name out of a registry's document, as a terminal may show it.
func shown(name string) string {
	name = strings.Trim(fmt.Sprintf("%.40q", name), `"`)
	if name == "" {
		return "nothing"
	}
	return name
}

// sumOf is the hexadecimal part of a digest.
func sumOf(digest string) (string, error) {
	sum, ok := strings.CutPrefix(digest, "sha256:")
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != 32 || strings.ToLower(sum) != sum {
		return "", fmt.Errorf("the digest %.100q is not sha256: and 64 hexadecimal digits", digest)
	}
	return sum, nil
}
