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

	"github.com/eksnode/packer-plugin-eksnode/internal/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
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
		return errors.New("the archive has no index.json, so it is not an OCI archive; docker save (since version 25), skopeo and ctr write OCI archives")
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
		return nil, fmt.Errorf("the image %s is incomplete in %s: %s is missing: %w", r, a.file.Name(), b.Digest, fs.ErrNotExist)
	}
	return io.NopCloser(io.NewSectionReader(a.file, at.from+min(from, at.size), max(at.size-from, 0))), nil
}

// Close closes the file.
func (a *Archive) Close() error { return a.file.Close() }
