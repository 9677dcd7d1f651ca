package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

var errNotRegular = errors.New("not a regular file")

// OpenRegular opens a regular file for reading and refuses every other kind:
// opening a device may have an effect, and reading a FIFO may never end.
func (f *Files) OpenRegular(name string) (*os.File, error) {
	var file *os.File
	err := f.at("open", name, true, func(p place) (err error) {
		file, err = openRegular(p.dir, p.base, name)
		return err
	})
	return file, err
}

// openRegular opens base in a directory; name is the file's name in errors.
func openRegular(dir int, base, name string) (*os.File, error) {
	st, err := statat(dir, base)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errNotRegular
	}
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), name)
	if now, err := file.Stat(); err != nil || !now.Mode().IsRegular() { // replaced meanwhile
		_ = file.Close()
		return nil, errors.Join(err, errNotRegular)
	}
	return file, nil
}

// Read reads a whole regular file of at most that many bytes. A link to /dev/null,
// which masks a configuration file, reads as an empty file.
func (f *Files) Read(name string, most int64) ([]byte, error) {
	file, err := f.OpenRegular(name)
	if errors.Is(err, errNotRegular) && f.isNull(name) {
		return []byte{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("larger than %d MiB", most>>20)}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// isNull says whether name is the null device (null(4)).
func (f *Files) isNull(name string) bool {
	st, err := f.Stat(name)
	if err != nil {
		return false
	}
	own := st.(*info).st
	return own.Mode&unix.S_IFMT == unix.S_IFCHR && own.Rdev == unix.Mkdev(1, 3)
}
