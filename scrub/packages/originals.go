package packages

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Original is a regular file as a package installed it.
type Original struct {
	// Package owns the file.
	Package string
	// Config says that the package expects people to edit the file.
	Config bool
	// sum is the digest of the content. Its length names the algorithm.
	sum string
}

// Originals are the files with a checksum in a package database, by their place
// on the machine after all links. Several packages may own one file.
type Originals map[string][]Original

// ReadOriginals reads the checksums of dpkg, pacman and rpm. A machine without a
// database has none, such as one whose /usr is an image of its own.
func ReadOriginals(ctx context.Context, h *host.Host) (Originals, error) {
	l := &lister{ctx: ctx, h: h, folders: map[string]string{"/": "/"}}
	all := Originals{}
	for _, d := range databases() {
		if err := d.sums(l, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Places lists the files in order.
func (o Originals) Places() []string { return slices.Sorted(maps.Keys(o)) }

// Same reports whether a file's content equals one of its originals. It reads
// everything.
func Same(originals []Original, in io.Reader) (bool, error) {
	sums := map[int]hash.Hash{}
	var all []io.Writer
	for _, o := range originals {
		if sums[len(o.sum)] == nil {
			sums[len(o.sum)] = digests()[len(o.sum)]()
			all = append(all, sums[len(o.sum)])
		}
	}
	if _, err := io.Copy(io.MultiWriter(all...), in); err != nil {
		return false, err
	}
	return slices.ContainsFunc(originals, func(o Original) bool { return string(sums[len(o.sum)].Sum(nil)) == o.sum }), nil
}

// digests are the algorithms of package managers by the length of their sums.
func digests() map[int]func() hash.Hash {
	return map[int]func() hash.Hash{md5.Size: md5.New, sha1.Size: sha1.New, sha256.Size: sha256.New, sha512.Size384: sha512.New384, sha512.Size: sha512.New}
}

// add records a file. A sum that is not known is left out: the file then counts
// as one without an original.
func (o Originals) add(l *lister, owner, name, sum string, config bool) error {
	raw, err := hex.DecodeString(sum)
	if err != nil || digests()[len(raw)] == nil {
		return nil
	}
	folder, err := l.folder(path.Dir(path.Clean(name)))
	if err != nil {
		return err
	}
	place := path.Join(folder, path.Base(name))
	o[place] = append(o[place], Original{owner, config, string(raw)})
	return nil
}
