// Package packages reads the databases of dpkg, pacman and rpm: which package
// owns which file. It runs no program of an image.
package packages

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// database is one kind of package database. A machine may have several, and a
// reader of a database that the machine does not have adds nothing.
type database struct {
	// files adds the files that packages own, sums their checksums, and installed
	// the packages.
	files     func(*lister) error
	sums      func(*lister, Originals) error
	installed func(context.Context, *host.Host, Installed) error
}

// databases are the known kinds, each in a file of its own.
func databases() []database {
	return []database{{dpkgFiles, dpkgSums, dpkgInstalled}, {pacmanFiles, pacmanSums, pacmanInstalled},
		{rpmFiles, rpmSums, rpmInstalled}}
}

// Owners has the files of all installed packages, sorted by their place on the
// machine after all links.
type Owners struct{ files []owned }

type owned struct{ place, owner string }

// ReadOwners reads every package database of the machine. A machine without a
// database has no packages. An unreadable database is an error, because its
// packages may own any file.
func ReadOwners(ctx context.Context, h *host.Host) (*Owners, error) {
	l := &lister{ctx: ctx, h: h, folders: map[string]string{"/": "/"}}
	for _, d := range databases() {
		if err := d.files(l); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(l.files, func(a, b owned) int { return strings.Compare(a.place, b.place) })
	return &Owners{l.files}, nil
}

// Below returns a file below a place that a package owns, and the owner. With
// itself, the place itself counts too. Empty results mean that there is none.
// Files that a package owns but that do not exist do not count.
func (o *Owners) Below(h *host.Host, place string, itself bool) (file, owner string, err error) {
	if at, found := o.find(place); itself && found {
		return o.there(h, at)
	}
	prefix := strings.TrimSuffix(place, "/") + "/"
	for at, _ := o.find(prefix); at < len(o.files) && strings.HasPrefix(o.files[at].place, prefix); at++ {
		if file, owner, err := o.there(h, at); file != "" || err != nil {
			return file, owner, err
		}
	}
	return "", "", nil
}

// find returns the first entry of a place, or where it would be.
func (o *Owners) find(place string) (at int, found bool) {
	byPlace := func(f owned, place string) int { return strings.Compare(f.place, place) }
	return slices.BinarySearchFunc(o.files, place, byPlace)
}

func (o *Owners) there(h *host.Host, at int) (file, owner string, err error) {
	_, err = h.Files.Lstat(o.files[at].place)
	if isMissing(err) {
		return "", "", nil
	}
	return o.files[at].place, o.files[at].owner, err
}

// lister collects the files that packages own.
type lister struct {
	ctx   context.Context
	h     *host.Host
	files []owned
	// folders has the places of folders that are resolved already.
	folders map[string]string
}

// add records a file by its place after all links: packages still use names
// from before /bin became a part of /usr/bin.
func (l *lister) add(owner, name string) error {
	place, err := l.place(name)
	if err == nil && place != "/" {
		l.files = append(l.files, owned{place, owner})
	}
	return err
}

func (l *lister) place(name string) (string, error) {
	name = path.Clean(name)
	folder, err := l.folder(path.Dir(name))
	return path.Join(folder, path.Base(name)), err
}

func (l *lister) folder(name string) (string, error) {
	if place, ok := l.folders[name]; ok {
		return place, nil
	}
	above, err := l.folder(path.Dir(name))
	if err != nil {
		return "", err
	}
	_, place, err := l.h.Trail(path.Join(above, path.Base(name)), true)
	if err != nil {
		return "", err
	}
	l.folders[name] = place
	return place, nil
}

// listMost is how many bytes a list of files may have; that of kernel headers
// has 2 MiB.
const listMost = 64 << 20

// content reads a file of a database.
func content(h *host.Host, name string) (string, error) {
	text, err := h.Files.Read(name, listMost)
	return string(text), err
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Package is an installed package. Of packages that are installed in several versions,
// such as kernels, Version has all, separated by commas. Source is the name of its source
// package, or of rpm's file, and License is the text in the database, if they are there.
type Package struct{ Name, Version, Source, License string }

// Installed are the installed packages, by the name that an owner of files has.
type Installed map[string]Package

// ReadInstalled reads the packages in every package database of the machine. A machine
// without a database has none.
func ReadInstalled(ctx context.Context, h *host.Host) (Installed, error) {
	all := Installed{}
	for _, d := range databases() {
		if err := d.installed(ctx, h, all); err != nil {
			return nil, fmt.Errorf("reading the installed packages: %w", err)
		}
	}
	return all, nil
}

func (all Installed) add(owner string, p Package) {
	versions := append(all[owner].Versions(), p.Version)
	slices.Sort(versions)
	p.Version = strings.Join(slices.Compact(versions), ", ")
	all[owner] = p
}

// Versions are the installed versions.
func (p Package) Versions() []string {
	if p.Version == "" {
		return nil
	}
	return strings.Split(p.Version, ", ")
}

// Of returns the package that owns a place, or "". A place that several packages own,
// such as /usr/bin, is no package's own.
func (o *Owners) Of(place string) string {
	owner := ""
	for at, _ := o.find(place); at < len(o.files) && o.files[at].place == place; at++ {
		if owner != "" && owner != o.files[at].owner {
			return ""
		}
		owner = o.files[at].owner
	}
	return owner
}

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
	return slices.ContainsFunc(originals, func(o Original) bool { return string(sums[len(o.sum)].Sum(nil)) == o.sum }),
		nil
}

// digests are the algorithms of package managers by the length of their sums.
func digests() map[int]func() hash.Hash {
	return map[int]func() hash.Hash{md5.Size: md5.New, sha1.Size: sha1.New, sha256.Size: sha256.New,
		sha512.Size384: sha512.New384, sha512.Size: sha512.New}
}

// add records a file. A sum that is not known is left out: the file then counts
// as one without an original.
func (o Originals) add(l *lister, owner, name, sum string, config bool) error {
	raw, err := hex.DecodeString(sum)
	if err != nil || digests()[len(raw)] == nil {
		return nil
	}
	place, err := l.place(name)
	if err == nil {
		o[place] = append(o[place], Original{owner, config, string(raw)})
	}
	return err
}
