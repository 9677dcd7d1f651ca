package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// Source has manifests and blobs by their digest.
type Source interface {
	// Open opens a part of an image from a byte on. manifest says that the part is
	// a manifest: a registry has manifests and blobs at different places. The
	// caller verifies the content. A source that keeps content keeps at most b.Size
	// bytes.
	Open(ctx context.Context, r Reference, b Blob, manifest bool, from int64) (io.ReadCloser, error)
}

// Blob is a part of an image.
type Blob struct {
	Digest string
	Size   int64 // bytes
}

// Image is the part of an image that one machine needs.
type Image struct {
	// Digest is the digest of the manifest for the machine's architecture.
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

// platform is the platform of a manifest or a configuration.
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

// Limits on the size of an image.
const (
	// mostDocument is the largest manifest or configuration, in bytes: registries
	// accept none above 4 MiB.
	mostDocument = 4 << 20
	// mostLayers is how many layers the kernel can stack, OVL_MAX_STACK in
	// https://github.com/torvalds/linux/blob/master/fs/overlayfs/params.h.
	mostLayers = 500
	// mostImage is the largest image, in bytes.
	mostImage = 128 << 30
)

// Choose returns the parts of an image that a machine with the architecture arch
// (as Go spells it) needs. The reference must have a digest.
func Choose(ctx context.Context, from Source, r Reference, arch string) (*Image, error) {
	d, raw, err := readManifest(ctx, from, r, r.Digest)
	digest := r.Digest
	if err == nil && len(d.Manifests) > 0 {
		if digest, err = d.pick(arch); err == nil {
			d, raw, err = readManifest(ctx, from, r, digest)
		}
		if err == nil && len(d.Manifests) > 0 {
			err = fmt.Errorf("%s is a list of manifests in a list of manifests", digest)
		}
	}
	if err == nil {
		err = d.check(ctx, from, r, arch)
	}
	if source, ok := errors.AsType[sourceError](err); ok {
		return nil, source.error
	}
	if err != nil {
		return nil, fmt.Errorf("choosing from the image %s: %w", r, err)
	}
	i := &Image{Digest: digest, mediaType: d.MediaType, manifest: raw}
	i.mediaType = cmp.Or(i.mediaType, manifestType)
	for _, part := range append([]descriptor{d.Config}, d.Layers...) {
		i.Blobs = append(i.Blobs, Blob{part.Digest, part.Size})
	}
	return i, nil
}

func readManifest(ctx context.Context, from Source, r Reference, digest string) (document, []byte, error) {
	var d document
	raw, err := readVerified(ctx, from, r, digest, true)
	if err != nil {
		return d, nil, err
	}
	if err := strictjson.ReadKnown(raw, &d); err != nil {
		return d, nil, fmt.Errorf("the manifest %s cannot be read: %w", digest, err)
	}
	if len(d.Manifests) == 0 && d.Config.Digest == "" {
		return d, nil, fmt.Errorf("%s is neither a manifest nor a list of them", digest)
	}
	return d, raw, nil
}

// sourceError is an error of a source, which names the image already.
type sourceError struct{ error }

// readVerified reads a small part of an image.
func readVerified(ctx context.Context, from Source, r Reference, digest string, manifest bool) (raw []byte, err error) {
	v, err := newVerifier(digest)
	if err != nil {
		return nil, err
	}
	body, err := from.Open(ctx, r, Blob{digest, mostDocument}, manifest, 0)
	if err != nil {
		return nil, sourceError{err}
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if raw, err = io.ReadAll(io.LimitReader(body, mostDocument+1)); err != nil {
		return nil, err
	}
	if len(raw) > mostDocument {
		return nil, fmt.Errorf("%s has more than %d bytes", digest, mostDocument)
	}
	_, _ = v.hash.Write(raw) // a hash never fails
	return raw, v.check()
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
	return "", fmt.Errorf("the image has no linux/%s, only %s", arch, strings.Join(known, ", "))
}

// check makes sure that the image is for the machine. An image without a list names
// its platform only in its configuration.
func (d document) check(ctx context.Context, from Source, r Reference, arch string) error {
	if err := d.checkParts(); err != nil {
		return err
	}
	raw, err := readVerified(ctx, from, r, d.Config.Digest, false)
	if err != nil {
		return err
	}
	var config platform
	if err := strictjson.ReadKnown(raw, &config); err != nil {
		return fmt.Errorf("the configuration %s cannot be read: %w", d.Config.Digest, err)
	}
	if config.OS != "linux" || config.Architecture != arch {
		return fmt.Errorf("the image is for %s/%s, but the machine is linux/%s", shown(config.OS),
			shown(config.Architecture), arch)
	}
	return nil
}

// checkParts makes sure that the image's parts are within the limits.
func (d document) checkParts() error {
	if len(d.Layers) > mostLayers {
		return fmt.Errorf("the image has %d layers, but a node can mount only %d", len(d.Layers), mostLayers)
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
			return fmt.Errorf("the image has more than %d bytes", int64(mostImage))
		}
		left -= part.Size
	}
	return nil
}

// mostShown is how many names a message contains.
const mostShown = 20

// shown is a short, printable name from a registry's document.
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

// Write writes an image as an OCI archive
// (https://github.com/opencontainers/image-spec/blob/main/image-layout.md) that
// contains it under the name "as". The same image gives the same archive. Every
// blob is verified. After an error the archive is incomplete and must not be used.
func (i *Image) Write(ctx context.Context, from Source, r Reference, as string, to io.Writer) error {
	w := &writer{tar.NewWriter(to), map[string]bool{}}
	for _, b := range i.Blobs {
		if err := w.copyBlob(ctx, from, r, b); err != nil {
			return err
		}
	}
	if err := w.blob(Blob{i.Digest, int64(len(i.manifest))}, bytes.NewReader(i.manifest)); err != nil {
		return err
	}
	return w.finish(descriptor{MediaType: i.mediaType, Digest: i.Digest, Size: int64(len(i.manifest))}, as)
}

// writer writes an archive.
type writer struct {
	tar  *tar.Writer
	have map[string]bool // blobs already written
}

func (w *writer) copyBlob(ctx context.Context, from Source, r Reference, b Blob) (err error) {
	body, err := from.Open(ctx, r, b, false, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	return w.blob(b, body)
}

// blob writes a blob and compares it with its digest.
func (w *writer) blob(b Blob, from io.Reader) error {
	if w.have[b.Digest] {
		return nil
	}
	v, err := newVerifier(b.Digest)
	if err != nil {
		return err
	}
	if err := w.file("blobs/sha256/"+v.want, b.Size, io.TeeReader(from, v.hash)); err != nil {
		return fmt.Errorf("reading the blob %s: %w", b.Digest, err)
	}
	w.have[b.Digest] = true
	return v.check()
}

func (w *writer) file(name string, size int64, from io.Reader) error {
	head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}
	if err := w.tar.WriteHeader(head); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	_, err := io.CopyBuffer(w.tar, from, make([]byte, 256<<10))
	return err
}

// finish writes the index, which gives the archive one image under one name.
func (w *writer) finish(target descriptor, as string) error {
	target.Annotations = map[string]string{nameAnnotation: as, tagAnnotation: as[strings.LastIndex(as, ":")+1:]}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType,
		"manifests": []descriptor{target}})
	if err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	const layout = `{"imageLayoutVersion":"1.0.0"}`
	return errors.Join(
		w.file("oci-layout", int64(len(layout)), strings.NewReader(layout)),
		w.file("index.json", int64(len(index)), bytes.NewReader(index)),
		w.tar.Close())
}

// The annotations that name an image in an archive's index: containerd's, which
// Docker also writes, and OCI's, which may be the tag alone.
const (
	nameAnnotation = "io.containerd.image.name"
	tagAnnotation  = "org.opencontainers.image.ref.name"
)

// verifier compares content with its digest.
type verifier struct {
	want string
	hash hash.Hash
}

func newVerifier(digest string) (verifier, error) {
	want, err := sumOf(digest)
	return verifier{want, sha256.New()}, err
}

func (v verifier) check() error {
	if got := hex.EncodeToString(v.hash.Sum(nil)); got != v.want {
		return fmt.Errorf("verifying the blob sha256:%s: the content has the SHA-256 %s", v.want, got)
	}
	return nil
}
