package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Open opens a regular file for reading, also when its path is too long for the
// kernel. It works while the entry is visited.
func (e Entry) Open() (*os.File, error) {
	file, err := openRegular(e.dir, e.Name(), e.Path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: e.Path, Err: err}
	}
	return file, nil
}

// Walk visits top and everything below it: folders before their contents, names in
// order. It follows a link at top. It visits links below top but does not follow
// them. Missing entries, and entries that disappear meanwhile, are left out. visit
// may return fs.SkipDir for a folder. An unreadable folder is visited a second
// time, with the error.
//
// Walk neither visits nor enters a foreign mount, as Foreign defines it for the
// folder named. It returns the foreign mounts that are not the kernel's. Walk ends
// when ctx ends. Its time grows with the number of entries, not with the depth, and
// deep trees need few open files.
func (f *Files) Walk(ctx context.Context, top, named string, visit func(Entry, error) error) ([]*ForeignMount, error) {
	v, err := f.mounts.view(f.root)
	if err != nil {
		return nil, err
	}
	w := walk{ctx: ctx, visit: visit, view: v}
	m, err := f.foreign(v, top, named, true)
	if err == nil && m != nil {
		w.leave(m)
		return w.foreign, nil
	}
	if err == nil {
		w.named, _, err = f.route(v, named, "", true)
	}
	if err == nil {
		err = w.begin(f, top)
	}
	return w.foreign, err
}

type walk struct {
	ctx     context.Context
	visit   func(Entry, error) error
	view    *mountView
	named   string // without links
	foreign []*ForeignMount
}

// openFolder is a directory that Walk is in.
type openFolder struct {
	fd    int // -1 means closed
	shown string
	real  string // as shown, without links
	depth int
	st    unix.Stat_t
}

func (o *openFolder) close() {
	if o.fd >= 0 {
		_ = unix.Close(o.fd)
	}
	o.fd = -1
}

func (w *walk) begin(f *Files, top string) error {
	top = path.Clean("/" + top)
	real, _, err := f.route(w.view, top, "", true)
	if err != nil {
		return err
	}
	p, err := f.resolve(top, true)
	if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
		return nil
	}
	if err != nil {
		return w.visit(Entry{Path: top}, &fs.PathError{Op: "lstat", Path: top, Err: err})
	}
	defer p.close()
	return w.entry(&openFolder{fd: p.dir}, p.base, top, real)
}

func (w *walk) leave(m *ForeignMount) {
	if !m.Kernel {
		w.foreign = append(w.foreign, m)
	}
}

// entry visits the entry base of a directory and everything below it.
func (w *walk) entry(in *openFolder, base, shown, real string) error {
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	st, err := statat(in.fd, base)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return w.visit(Entry{Path: shown}, &fs.PathError{Op: "lstat", Path: shown, Err: err})
	}
	err = w.visit(Entry{FileInfo: st, Path: shown, dir: in.fd}, nil)
	if !st.IsDir() || err != nil {
		if errors.Is(err, fs.SkipDir) {
			err = nil
		}
		return err
	}
	sub := &openFolder{shown: shown, real: real, depth: in.depth + 1, st: st.st}
	if sub.fd, err = w.enter(in, base, real); err != nil {
		return w.unreadable(sub, err)
	}
	defer sub.close()
	// Close the file of a deep directory meanwhile: a process may have as few as
	// 1024 files open.
	deep := in.depth > deepest
	if deep {
		in.close()
	}
	if err = w.folder(sub); err == nil && deep {
		err = in.again(sub)
	}
	return err
}

// again opens the parent of an open directory.
func (o *openFolder) again(sub *openFolder) error {
	fd, err := openDir(sub.fd, "..")
	if err != nil {
		return &fs.PathError{Op: "open", Path: shortened(o.shown), Err: err}
	}
	o.fd = fd
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Dev != o.st.Dev || st.Ino != o.st.Ino) {
		err = errors.New("another process moves folders inside this folder")
	}
	if err != nil {
		return &fs.PathError{Op: "walk", Path: shortened(o.shown), Err: err}
	}
	return nil
}

// enter opens a directory that is on the same mount or on a mount that is not
// foreign.
func (w *walk) enter(in *openFolder, base, real string) (int, error) {
	if in.depth == 0 || w.view.at[real] != nil { // already judged
		return openDir(in.fd, base)
	}
	return openSame(in.fd, base, real)
}

// openSame opens a directory that is on the same mount as its parent: by one
// openat2(2) or, on kernels before 5.6, by comparing mounts.
func openSame(dir int, base, real string) (int, error) {
	fd, err := unix.Openat2(dir, base, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS,
	})
	switch err {
	case unix.EXDEV:
		return -1, &MountedError{Path: real}
	case unix.EINTR, unix.EAGAIN:
		return openSame(dir, base, real)
	case unix.ENOSYS, unix.EPERM: // EPERM: in older containers
		return enterSame(dir, base, real)
	}
	return fd, err
}

// enterSame opens a directory that is on the same mount as its parent.
func enterSame(dir int, base, real string) (int, error) {
	fd, err := openDir(dir, base)
	if err != nil {
		return -1, err
	}
	own, err := mountID(dir)
	if err == nil {
		var id uint64
		if id, err = mountID(fd); err == nil && id != own {
			err = &MountedError{Path: real}
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// unreadable visits a directory with the error that prevents reading it.
func (w *walk) unreadable(o *openFolder, err error) error {
	if err == unix.ENOENT {
		return nil
	}
	err = w.visit(Entry{Path: o.shown}, &fs.PathError{Op: "open", Path: shortened(o.shown), Err: err})
	if errors.Is(err, fs.SkipDir) {
		return nil
	}
	return err
}

// folder visits the entries of a directory.
func (w *walk) folder(o *openFolder) error {
	names, err := readNames(o.fd)
	if err != nil {
		return w.unreadable(o, err)
	}
	slices.Sort(names)
	for _, name := range names {
		real := strings.TrimSuffix(o.real, "/") + "/" + name
		shown := real
		if o.shown != o.real {
			shown = strings.TrimSuffix(o.shown, "/") + "/" + name
		}
		if m := w.view.on(real, w.named); m != nil {
			w.leave(m)
			continue
		}
		if err := w.entry(o, name, shown, real); err != nil {
			return err
		}
	}
	return nil
}

func readNames(fd int) (names []string, err error) {
	for buf := make([]byte, 16<<10); ; {
		n, err := unix.Getdents(fd, buf)
		if n <= 0 || err != nil {
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// shortened cuts a path that is longer than PATH_MAX, for messages.
func shortened(name string) string {
	const most, end = unix.PathMax, 256
	if len(name) <= most {
		return name
	}
	return name[:most-end] + "…" + name[len(name)-end:]
}
