// Package packages reads the databases of dpkg, pacman and rpm: which package
// owns which file. It runs no program of an image.
package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	return []database{{dpkgFiles, dpkgSums, dpkgInstalled}, {pacmanFiles, pacmanSums, pacmanInstalled}, {rpmFiles, rpmSums, rpmInstalled}}
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
	from := func(place string) int {
		at, _ := slices.BinarySearchFunc(o.files, place, func(f owned, place string) int { return strings.Compare(f.place, place) })
		return at
	}
	if at := from(place); itself && at < len(o.files) && o.files[at].place == place {
		return o.there(h, at)
	}
	prefix := strings.TrimSuffix(place, "/") + "/"
	for at := from(prefix); at < len(o.files) && strings.HasPrefix(o.files[at].place, prefix); at++ {
		if file, owner, err := o.there(h, at); file != "" || err != nil {
			return file, owner, err
		}
	}
	return "", "", nil
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
	name = path.Clean(name)
	if name == "/" {
		return nil
	}
	folder, err := l.folder(path.Dir(name))
	if err != nil {
		return err
	}
	l.files = append(l.files, owned{path.Join(folder, path.Base(name)), owner})
	return nil
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
	in, err := h.Files.Open(name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, listMost+1))
	if err == nil && len(text) > listMost {
		err = fmt.Errorf("%s has more than %d bytes", name, listMost)
	}
	return string(text), err
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
