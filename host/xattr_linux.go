package host

import (
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Readlink returns the target of a link. It works while the entry is visited.
func (e Entry) Readlink() (string, error) {
	target, err := readlinkat(e.dir, e.Name())
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: e.Path, Err: err}
	}
	return target, nil
}

// ExtendedAttributes returns the extended attributes (xattr(7)) of the entry itself,
// by name: capabilities, access control lists, labels. It works while the entry is
// visited.
func (e Entry) ExtendedAttributes() (map[string]string, error) {
	all := map[string]string{}
	err := place{dir: e.dir, base: e.Name()}.viaProc(func(path string) error {
		names, err := attribute(func(into []byte) (int, error) { return unix.Listxattr(path, into) })
		if errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
			if name == "" || err != nil {
				break
			}
			all[name], err = attribute(func(into []byte) (int, error) { return unix.Getxattr(path, name, into) })
		}
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "getxattr", Path: e.Path, Err: err}
	}
	return all, nil
}

// attribute reads an extended attribute or the list of their names. Linux limits both
// to 64 KiB.
func attribute(read func([]byte) (int, error)) (string, error) {
	small := make([]byte, 256)
	n, err := read(small)
	if errors.Is(err, unix.ERANGE) {
		small = make([]byte, 64<<10)
		n, err = read(small)
	}
	if err != nil {
		return "", err
	}
	return string(small[:n]), nil
}

// Label returns the label that SELinux uses for a regular file; "" if it has none.
func (f *Files) Label(name string) (string, error) {
	file, err := f.OpenRegular(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	label, err := attribute(func(into []byte) (int, error) {
		return unix.Fgetxattr(int(file.Fd()), "security.selinux", into)
	})
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return "", nil
	}
	if err != nil {
		return "", &fs.PathError{Op: "getxattr", Path: name, Err: err}
	}
	return strings.TrimSuffix(label, "\x00"), nil
}
