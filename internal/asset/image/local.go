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
)

// Archive is an OCI archive in a file of the running system: what `docker save`
// since version 25, `skopeo copy … oci-archive:` and `ctr images export` write.
// It is a Source.
type Archive struct {
	file  *os.File
	blobs map[string]span
	index document
}

// span is where a member's content lies in the file.
type span struct{ from, size int64 }

// OpenArchive opens an archive. The caller closes it.
func OpenArchive(name string) (a *Archive, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the archive of images: %w", err)
	}
	a = &Archive{file: file, blobs: map[string]span{}}
	if err = a.list(); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the archive of images %s: %w", name, err), file.Close())
	}
	return a, nil
}

// list finds out where the blobs lie.
func (a *Archive) list() error {
	var index []byte
	for archive := tar.NewReader(a.file); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("it is not a tar archive (one that is compressed must be unpacked first): %w", err)
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
				return fmt.Errorf("its index.json has more than %d bytes", mostDocument)
			}
		}
	}
	if index == nil {
		return errors.New("it is not an OCI archive, which has an index.json; Docker writes one since version 25, and skopeo and ctr do")
	}
	if err := strictjson.ReadKnown(index, &a.index); err != nil {
		return fmt.Errorf("its index.json cannot be read: %w", err)
	}
	return nil
}

// Has says whether the archive has a blob or manifest.
func (a *Archive) Has(digest string) bool {
	_, there := a.blobs[digest]
	return there
}

// Resolve finds the digest that the archive has under a name; empty when it
// has none.
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
		return nil, fmt.Errorf("%s is not whole in %s, which lacks %s: %w", r, a.file.Name(), b.Digest, fs.ErrNotExist)
	}
	return io.NopCloser(io.NewSectionReader(a.file, at.from+min(from, at.size), max(at.size-from, 0))), nil
}

// Close closes the file.
func (a *Archive) Close() error { return a.file.Close() }
