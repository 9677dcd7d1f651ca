package host

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/afero"
	"golang.org/x/sys/unix"
)

// Files is a machine's file system. It is an afero.Fs (also afero.Lstater,
// afero.Linker and afero.LinkReader) whose names are the machine's own absolute
// paths.
//
// Files resolves every link inside the machine's root, also absolute links and
// "..". Nothing outside the root can be read or written through a link.
// afero.BasePathFs does not promise that: it leaves links to the kernel.
type Files struct {
	root   int // O_PATH descriptor of the root directory
	name   string
	mounts mountTable
}

var (
	_ afero.Fs         = (*Files)(nil)
	_ afero.Lstater    = (*Files)(nil)
	_ afero.Linker     = (*Files)(nil)
	_ afero.LinkReader = (*Files)(nil)
)

func openFiles(root string) (*Files, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Files{root: fd, name: root}, nil
}

// Close closes the descriptors of the root and of the mount table.
func (f *Files) Close() error {
	f.mounts.close()
	return unix.Close(f.root)
}

// Name implements afero.Fs.
func (f *Files) Name() string { return "host.Files(" + f.name + ")" }

// at resolves name and runs op on the place. Errors carry the machine's path.
func (f *Files) at(verb, name string, follow bool, op func(place) error) error {
	p, err := f.resolve(name, follow)
	if err == nil {
		err = op(p)
		p.close()
	}
	if err != nil {
		return &fs.PathError{Op: verb, Path: name, Err: err}
	}
	return nil
}

// Create implements afero.Fs.
func (f *Files) Create(name string) (afero.File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// Open implements afero.Fs.
func (f *Files) Open(name string) (afero.File, error) {
	return f.OpenFile(name, os.O_RDONLY, 0)
}

// OpenFile implements afero.Fs. It never blocks on a FIFO or on a device without a
// reader or writer: it opens such a file without waiting.
func (f *Files) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	opened, err := f.OpenOS(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{File: opened}, nil
}

// OpenOS is OpenFile for libraries that need an *os.File. Do not use the file's
// Readdir: it would look the names up outside the root.
func (f *Files) OpenOS(name string, flag int, perm os.FileMode) (*os.File, error) {
	exclusive := flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL
	var opened *os.File
	err := f.at("open", name, !exclusive, func(p place) error {
		fd, err := unix.Openat(p.dir, p.base, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, modeBits(perm))
		if err != nil {
			return err
		}
		opened = os.NewFile(uintptr(fd), name)
		return nil
	})
	return opened, err
}

// Mkdir implements afero.Fs.
func (f *Files) Mkdir(name string, perm os.FileMode) error {
	return f.at("mkdir", name, false, func(p place) error {
		return unix.Mkdirat(p.dir, p.base, modeBits(perm))
	})
}

// MkdirAll implements afero.Fs. Existing directories keep their modes.
func (f *Files) MkdirAll(name string, perm os.FileMode) error {
	made := ""
	for _, c := range split(name) {
		made += "/" + c
		st, err := f.Stat(made)
		if err == nil && st.IsDir() {
			continue
		}
		if err := f.Mkdir(made, perm); err != nil && !os.IsExist(err) {
			return err
		}
	}
	st, err := f.Stat(name)
	if err == nil && !st.IsDir() {
		err = &fs.PathError{Op: "mkdir", Path: name, Err: unix.ENOTDIR}
	}
	return err
}

// Remove implements afero.Fs: it removes one file, link or empty directory.
func (f *Files) Remove(name string) error {
	return f.at("remove", name, false, func(p place) error {
		err := unix.Unlinkat(p.dir, p.base, 0)
		if err == unix.EISDIR {
			return unix.Unlinkat(p.dir, p.base, unix.AT_REMOVEDIR)
		}
		return err
	})
}

// Rename implements afero.Fs.
func (f *Files) Rename(oldname, newname string) error {
	return f.at("rename", oldname, false, func(from place) error {
		to, err := f.resolve(newname, false)
		if err != nil {
			return err
		}
		defer to.close()
		return unix.Renameat(from.dir, from.base, to.dir, to.base)
	})
}

// Stat implements afero.Fs.
func (f *Files) Stat(name string) (os.FileInfo, error) { return f.stat("stat", name, true) }

// Lstat describes the entry itself, also when it is a link.
func (f *Files) Lstat(name string) (os.FileInfo, error) { return f.stat("lstat", name, false) }

// LstatIfPossible implements afero.Lstater.
func (f *Files) LstatIfPossible(name string) (os.FileInfo, bool, error) {
	st, err := f.Lstat(name)
	return st, true, err
}

func (f *Files) stat(verb, name string, follow bool) (os.FileInfo, error) {
	var st *info
	err := f.at(verb, name, follow, func(p place) (err error) {
		st, err = statat(p.dir, p.base)
		return err
	})
	if err != nil {
		return nil, err
	}
	st.name = path.Base("/" + name)
	return st, nil
}

// SymlinkIfPossible implements afero.Linker. The target is stored as given.
func (f *Files) SymlinkIfPossible(target, name string) error {
	return f.at("symlink", name, false, func(p place) error {
		return unix.Symlinkat(target, p.dir, p.base)
	})
}

// ReadlinkIfPossible implements afero.LinkReader.
func (f *Files) ReadlinkIfPossible(name string) (string, error) {
	var target string
	err := f.at("readlink", name, false, func(p place) (err error) {
		target, err = readlinkat(p.dir, p.base)
		return err
	})
	return target, err
}

// Chmod implements afero.Fs.
func (f *Files) Chmod(name string, mode os.FileMode) error {
	return f.at("chmod", name, true, func(p place) error {
		return p.viaProc(func(path string) error { return unix.Chmod(path, modeBits(mode)) })
	})
}

// Chown implements afero.Fs.
func (f *Files) Chown(name string, uid, gid int) error {
	return f.at("chown", name, true, func(p place) error {
		return unix.Fchownat(p.dir, p.base, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Chtimes implements afero.Fs.
func (f *Files) Chtimes(name string, atime, mtime time.Time) error {
	return f.at("chtimes", name, true, func(p place) error {
		ts := []unix.Timespec{unix.NsecToTimespec(atime.UnixNano()), unix.NsecToTimespec(mtime.UnixNano())}
		return unix.UtimesNanoAt(p.dir, p.base, ts, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// viaProc runs op on a path that names exactly this entry and follows no link.
// fchmodat cannot do that before Linux 6.6.
func (p place) viaProc(op func(path string) error) error {
	fd, err := unix.Openat(p.dir, p.base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return op("/proc/self/fd/" + strconv.Itoa(fd))
}

// file is an open file that lists its directory by descriptor. os.File.Readdir
// calls lstat on File.Name, which here is a name inside the root and would be
// looked up outside.
type file struct{ *os.File }

// Readdir implements afero.File.
func (d *file) Readdir(count int) ([]os.FileInfo, error) {
	names, err := d.Readdirnames(count)
	list := make([]os.FileInfo, 0, len(names))
	for _, n := range names {
		st, statErr := statat(int(d.Fd()), n)
		if os.IsNotExist(statErr) {
			continue
		}
		if statErr != nil {
			return list, &fs.PathError{Op: "readdir", Path: strings.TrimSuffix(d.Name(), "/") + "/" + n, Err: statErr}
		}
		list = append(list, st)
	}
	return list, err
}

// ReadDir replaces os.File.ReadDir, which has the same fault as os.File.Readdir.
func (d *file) ReadDir(count int) ([]fs.DirEntry, error) {
	list, err := d.Readdir(count)
	entries := make([]fs.DirEntry, len(list))
	for i, st := range list {
		entries[i] = fs.FileInfoToDirEntry(st)
	}
	return entries, err
}
