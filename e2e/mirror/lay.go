package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"
)

// Lay puts the assets and their checksum files below folder, which it makes.
// A file is complete as soon as it is there; what else lies in the folder
// stays.
func Lay(ctx context.Context, folder string, assets ...Asset) error {
	layout, err := plan(ctx, assets)
	if err != nil {
		return fmt.Errorf("planning the mirror: %w", err)
	}
	for _, place := range layout.places() {
		if err := layout.write(ctx, folder, place); err != nil {
			return fmt.Errorf("laying %s into the mirror: %w", place, err)
		}
	}
	return nil
}

// Hash answers a hash over the names and contents of all files below folder,
// in hexadecimal: equal for equal mirrors, wherever and whenever they were
// made.
func Hash(folder string) (string, error) {
	sum, err := dirhash.HashDir(folder, "", dirhash.Hash1)
	if err != nil {
		return "", fmt.Errorf("hashing the mirror %s: %w", folder, err)
	}
	return hexadecimal(sum)
}

// layout is what a mirror holds, by place: paths of files on this machine,
// and the texts of checksum files.
type layout struct {
	files map[string]string
	sums  map[string]string
}

// plan hashes the assets and answers what the mirror is to hold.
func plan(ctx context.Context, assets []Asset) (layout, error) {
	all := layout{files: map[string]string{}, sums: map[string]string{}}
	for _, asset := range assets {
		place, err := Place(asset.URL)
		if err != nil {
			return layout{}, err
		}
		if other, taken := all.files[place]; taken {
			return layout{}, fmt.Errorf("placing %s: both %s and %s are meant for it", place, other, asset.File)
		}
		all.files[place] = asset.File
		if asset.SumURL == "" {
			continue
		}
		sumPlace, err := Place(asset.SumURL)
		if err != nil {
			return layout{}, err
		}
		sum, err := fileSum(ctx, asset.File)
		if err != nil {
			return layout{}, err
		}
		line := strings.ReplaceAll(strings.ReplaceAll(string(asset.SumForm), "%[1]s", sum), "%[2]s", path.Base(place))
		if line == string(asset.SumForm) {
			return layout{}, fmt.Errorf("placing %s: unknown form of checksum file %q", sumPlace, asset.SumForm)
		}
		all.sums[sumPlace] += line
	}
	for place := range all.sums {
		if file, taken := all.files[place]; taken {
			return layout{}, fmt.Errorf("placing %s: both %s and a checksum are meant for it", place, file)
		}
	}
	return all, nil
}

// places lists everything in the layout, sorted.
func (l layout) places() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for _, all := range []map[string]string{l.files, l.sums} {
			for place := range maps.Keys(all) {
				if !yield(place) {
					return
				}
			}
		}
	})
}

func (l layout) open(place string) (io.ReadCloser, error) {
	if text, isSum := l.sums[place]; isSum {
		return io.NopCloser(strings.NewReader(text)), nil
	}
	return os.Open(l.files[place])
}

// hash answers what Hash will answer once the layout is written.
func (l layout) hash() (string, error) {
	sum, err := dirhash.Hash1(l.places(), l.open)
	if err != nil {
		return "", fmt.Errorf("hashing what the mirror is to hold: %w", err)
	}
	return hexadecimal(sum)
}

func (l layout) write(ctx context.Context, folder, place string) (err error) {
	from, err := l.open(place)
	if err != nil {
		return err
	}
	defer from.Close()
	final := filepath.Join(folder, filepath.FromSlash(place))
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(final), ".unfinished-*")
	if err != nil {
		return err
	}
	// After the rename this finds nothing to remove.
	defer os.Remove(temporary.Name())
	if _, err := io.Copy(temporary, cancellable{ctx, from}); err != nil {
		return errors.Join(err, temporary.Close())
	}
	if err := errors.Join(temporary.Chmod(0o644), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), final)
}

func fileSum(ctx context.Context, file string) (string, error) {
	from, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("opening an asset: %w", err)
	}
	defer from.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, cancellable{ctx, from}); err != nil {
		return "", fmt.Errorf("hashing %s: %w", file, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// cancellable is a reader that fails once its context is done.
type cancellable struct {
	ctx  context.Context
	from io.Reader
}

func (c cancellable) Read(into []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.from.Read(into)
}

// hexadecimal rewrites dirhash's "h1:BASE64", whose slashes no file name takes.
func hexadecimal(sum string) (string, error) {
	encoded, known := strings.CutPrefix(sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !known || err != nil {
		return "", fmt.Errorf("reading the hash %q: it is not of the form h1:BASE64", sum)
	}
	return hex.EncodeToString(raw), nil
}
