package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
)

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

// file writes a member.
func (w *writer) file(name string, size int64, from io.Reader) error {
	head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}
	if err := w.tar.WriteHeader(head); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	_, err := io.CopyBuffer(onlyWriter{w.tar}, from, make([]byte, 256<<10))
	return err
}

type onlyWriter struct{ io.Writer }

// finish writes the index, which gives the archive one image under one name.
func (w *writer) finish(target descriptor, as string) error {
	target.Annotations = map[string]string{nameAnnotation: as, tagAnnotation: as[strings.LastIndex(as, ":")+1:]}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": []descriptor{target}})
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
