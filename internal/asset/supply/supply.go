// Package supply answers machines' requests on the Packer host: downloads from the
// cache, images from archives or registries. Everything is verified here and again
// on the machine.
package supply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/image"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/registry"
)

// Store is an asset.Supply for one machine. Set the fields to make one.
type Store struct {
	Cache *asset.Cache
	// Arch is the machine's architecture as Go spells it.
	Arch string
	// Download returns the download of an asset. An asset that the spec does not
	// contain is an error.
	Download func(asset string) (asset.Download, error)
	// Images are the images that the machine may request, each with its digest.
	Images []string
	// Archives are the files of OCI archives to search before any registry.
	Archives []string
	// Login returns credentials for registries without any in the user's
	// configuration; nil means none.
	Login registry.Login
}

// Supply implements asset.Supply.
func (s Store) Supply(ctx context.Context, w asset.Wanted) (*asset.Supplied, error) {
	if w.Image != "" {
		return s.image(ctx, w)
	}
	d, err := s.Download(w.Asset)
	if err != nil {
		return nil, err
	}
	kept, err := s.Cache.Get(ctx, d, func(int64, int64) {})
	if err != nil {
		return nil, err
	}
	file, err := os.Open(kept.Path)
	if err != nil {
		return nil, fmt.Errorf("reading the cache: %w", err)
	}
	return &asset.Supplied{ReadCloser: file, Size: kept.Size, SHA256: kept.SHA256}, nil
}

func (s Store) image(ctx context.Context, w asset.Wanted) (*asset.Supplied, error) {
	if !slices.Contains(s.Images, w.Image) {
		return nil, fmt.Errorf("the machine requests the image %q, which the template does not name", w.Image)
	}
	r, err := image.ParseReference(w.Image)
	if err != nil {
		return nil, err
	}
	from, closing, err := s.source(r)
	if err != nil {
		return nil, err
	}
	defer closing()
	through := cached{s.Cache, from}
	i, err := image.Choose(ctx, through, r, s.Arch)
	if err != nil {
		return nil, err
	}
	return s.pack(ctx, through, r, i, w.As)
}

// source is the first archive that contains an image, or its registry.
func (s Store) source(r image.Reference) (image.Source, func(), error) {
	for _, name := range s.Archives {
		a, err := image.OpenArchive(name)
		if err != nil {
			return nil, nil, err
		}
		if a.Has(r.Digest) {
			return a, func() { _ = a.Close() }, nil // opened for reading only
		}
		if err := a.Close(); err != nil {
			return nil, nil, err
		}
	}
	reg, err := registry.New(s.Login, s.Cache.Fetcher())
	if err != nil {
		return nil, nil, err
	}
	if len(s.Archives) == 0 {
		return reg, func() {}, nil
	}
	return notArchived{reg, s.Archives}, func() {}, nil
}

// notArchived is a registry that is used because no archive has the image.
type notArchived struct {
	image.Source
	archives []string
}

func (s notArchived) Open(ctx context.Context, r image.Reference, b image.Blob, manifest bool,
	from int64) (io.ReadCloser, error) {
	body, err := s.Source.Open(ctx, r, b, manifest, from)
	if err != nil {
		err = fmt.Errorf("the image %s is not in %s, and %w", r, strings.Join(s.archives, ", "), err)
	}
	return body, err
}

// pack writes an image's archive into a file that is removed when it is closed.
func (s Store) pack(ctx context.Context, from image.Source, r image.Reference, i *image.Image,
	as string) (*asset.Supplied, error) {
	file, err := s.Cache.Scratch()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	err = i.Write(ctx, from, r, as, io.MultiWriter(file, sum))
	size, seekErr := file.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err = errors.Join(err, seekErr); err != nil {
		return nil, errors.Join(fmt.Errorf("packing the image %s: %w", r, err), file.Close())
	}
	return &asset.Supplied{
		ReadCloser: file, Digest: i.Digest, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)),
	}, nil
}

// cached is a source with a cache: a pulled image needs no registry again, and the
// next run fetches only the rest of an interrupted one.
type cached struct {
	cache *asset.Cache
	from  image.Source
}

func (c cached) Open(ctx context.Context, r image.Reference, b image.Blob, manifest bool,
	from int64) (io.ReadCloser, error) {
	sum := strings.TrimPrefix(b.Digest, "sha256:")
	kept, err := c.cache.Blob(ctx, sum, b.Size, func(from int64) (io.ReadCloser, error) {
		return c.from.Open(ctx, r, b, manifest, from)
	})
	if err != nil {
		return nil, err
	}
	file, err := os.Open(kept.Path)
	if err == nil {
		_, err = file.Seek(from, io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cache: %w", err)
	}
	return file, nil
}
