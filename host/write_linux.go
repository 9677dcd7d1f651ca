package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// WriteFile writes data to name completely or not at all: it writes a temporary
// file next to name, flushes it to the disk and renames it. The new file keeps the
// extended attributes of an existing file (such as the SELinux label) and gets mode
// and owner from attr. A link in the last place is followed and stays. Anything else
// but a regular file there is an error. Missing parent directories get mode 0755.
func (f *Files) WriteFile(name string, data []byte, attr Attributes) error {
	return f.Replace(name, attr, content(data))
}

// WriteTransient is WriteFile without flushing to the disk, for files that every boot
// writes again. After a power failure such a file may be empty.
func (f *Files) WriteTransient(name string, data []byte, attr Attributes) error {
	return f.put(name, attr, content(data), false)
}

func content(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// Replace is WriteFile for content that fill writes. When fill fails, name is
// unchanged and the temporary file is removed.
func (f *Files) Replace(name string, attr Attributes, fill func(io.Writer) error) error {
	return f.put(name, attr, fill, true)
}

func (f *Files) put(name string, attr Attributes, fill func(io.Writer) error, flush bool) error {
	if err := f.MkdirAll(path.Dir(path.Clean("/"+name)), 0o755); err != nil {
		return err
	}
	return f.at("write", name, true, func(p place) error { return f.replace(p, name, attr, fill, flush) })
}

func (f *Files) replace(p place, name string, attr Attributes, fill func(io.Writer) error, flush bool) error {
	if st, err := statat(p.dir, p.base); err == nil && !st.Mode().IsRegular() {
		return fmt.Errorf("%w, which a write would replace; remove it first", errNotRegular)
	}
	if err := removeStale(p); err != nil {
		return explain(err)
	}
	temp, err := temporaryName(p.base)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(p.dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return explain(err)
	}
	out := os.NewFile(uintptr(fd), name)
	err = f.finish(p, out, attr, fill)
	if err == nil && flush {
		err = out.Sync()
	}
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if failed, ok := err.(*fs.PathError); ok && failed.Path == name { // avoid repeating the path
		err = failed.Err
	}
	if err == nil {
		err = explain(unix.Renameat(p.dir, temp, p.dir, p.base))
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, ignoreMissing(unix.Unlinkat(p.dir, temp, 0)))
}

// removeStale removes the temporary files that killed runs left next to p.
func removeStale(p place) error {
	fd, err := openDir(p.dir, ".")
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), ".")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !IsTemporary(name) || !strings.HasPrefix(name, temporaryPrefix(p.base)) {
			continue
		}
		if err := ignoreMissing(unix.Unlinkat(p.dir, name, 0)); err != nil {
			return err
		}
	}
	return nil
}

func (f *Files) finish(p place, out *os.File, attr Attributes, fill func(io.Writer) error) error {
	if err := fill(out); err != nil {
		return err
	}
	if err := out.Chown(attr.UID, attr.GID); err != nil {
		return err
	}
	if err := copyLabels(p, out); err != nil {
		return err
	}
	return unix.Fchmod(int(out.Fd()), modeBits(attr.Mode))
}

// copyLabels copies the extended attributes of the old file to the new one.
func copyLabels(p place, out *os.File) error {
	old, err := unix.Openat(p.dir, p.base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(old)
	names, err := attribute(func(into []byte) (int, error) { return unix.Flistxattr(old, into) })
	if err == unix.ENOTSUP {
		return nil
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		if name == "" || err != nil {
			break
		}
		var value string
		value, err = attribute(func(into []byte) (int, error) { return unix.Fgetxattr(old, name, into) })
		if err == nil {
			err = unix.Fsetxattr(int(out.Fd()), name, []byte(value), 0)
		}
		if err == unix.ENODATA { // removed meanwhile
			err = nil
		}
		if err != nil {
			err = fmt.Errorf("copying the attribute %s: %w", name, err)
		}
	}
	return err
}

// Truncate empties the file name and keeps its mode, owner and labels. A file with
// further hard links, which may lie outside the root, is replaced by an empty one;
// the other names keep the content. A symbolic link is an error, as is every kind
// but a regular file.
func (f *Files) Truncate(name string) error {
	return f.at("truncate", name, false, func(p place) error {
		folder, _, err := f.whereabouts(p)
		if err == nil {
			err = refuseDetour(folder, p.base, name, false)
		}
		if err != nil {
			return err
		}
		if st, err := statat(p.dir, p.base); err == nil && !st.Mode().IsRegular() && st.Mode()&fs.ModeSymlink == 0 {
			return errNotRegular
		}
		fd, err := unix.Openat(p.dir, p.base, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return explain(err)
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if st.Nlink > 1 {
			was := &info{st: st}
			return f.replace(p, name, was.attributes(), func(io.Writer) error { return nil }, true)
		}
		return explain(unix.Ftruncate(fd, 0))
	})
}

// Unshare replaces a file that has further hard links, which may lie outside the
// root, by a copy that can be changed safely.
func (f *Files) Unshare(name string) error {
	file, err := f.OpenRegular(name)
	if err != nil {
		return err
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil || st.Nlink == 1 {
		return err
	}
	was := &info{st: st}
	return f.Replace(name, was.attributes(), func(w io.Writer) error {
		_, err := io.Copy(w, file)
		return err
	})
}

// Attributes reads the attributes of a file and follows links.
func (f *Files) Attributes(name string) (Attributes, error) {
	st, err := f.stat("stat", name, true)
	if err != nil {
		return Attributes{}, err
	}
	return st.(*info).attributes(), nil
}

func (i *info) attributes() Attributes {
	return Attributes{
		Mode: i.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky),
		UID:  int(i.st.Uid), GID: int(i.st.Gid),
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sync writes all changes to the disk, on the machine or the image root. Without
// it, a disk that is captured while its machine runs, or whose machine loses power,
// still holds removed files.
func (h *Host) Sync() { unix.Sync() }
