// Package packages reads the databases of dpkg, pacman and rpm: which package
// owns which file. Nothing of an image is run for that.
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

// Owners are the files of all installed packages, by the places that they have
// on the machine after all links, sorted.
type Owners struct{ files []owned }

type owned struct{ place, owner string }

// ReadOwners asks every database that the machine has. A machine without one
// has no packages. A database that cannot be read is an error: what its packages
// own is not known then.
func ReadOwners(ctx context.Context, h *host.Host) (*Owners, error) {
	l := &lister{ctx: ctx, h: h, folders: map[string]string{"/": "/"}}
	for _, read := range []func(*lister) error{dpkgFiles, pacmanFiles, rpmFiles} {
		if err := read(l); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(l.files, func(a, b owned) int { return strings.Compare(a.place, b.place) })
	return &Owners{l.files}, nil
}

// Below names a file that a package owns and that lies below a place, and its
// owner; with itself, also the place alone. Empty names say that there is none.
// What a package owns and is not there does not count.
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

// lister collects what packages own.
type lister struct {
	ctx   context.Context
	h     *host.Host
	files []owned
	// folders are the places of folders that were resolved already.
	folders map[string]string
}

// add notes a file by the place that it has after all links: packages name it
// as their distribution did before it merged /bin into /usr/bin.
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

// listMost is how many bytes a database's file of one package may have; that of
// a kernel's headers has 2 MiB.
const listMost = 64 << 20

// content reads a database's file.
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
