package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// destination is a file that a person named for a command to write.
type destination struct {
	name string // as the person wrote it
	// path is the file that is replaced as a whole, with links resolved; empty for a
	// stream.
	path string
	// exists reports whether there was a file at path.
	exists bool
	// stream is a device, a FIFO or a descriptor, which is never replaced; nil for a
	// file.
	stream *os.File
}

// openDestination checks, without changing anything, whether a command can write to
// name. For a FIFO, it waits for the reader.
func openDestination(ctx context.Context, name string) (*destination, error) {
	path, err := follow(name)
	if err != nil {
		return nil, err
	}
	if isDescriptor(path) {
		stream, err := openDescriptor(name, path)
		return &destination{name: name, stream: stream}, err
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !strings.HasSuffix(name, "/"):
		return &destination{name: name, path: path}, surface.MayCreate(path)
	case errors.Is(err, fs.ErrNotExist), err == nil && st.IsDir():
		return nil, fmt.Errorf("%s is a folder; name a file", name)
	case errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%s is not a folder", filepath.Dir(name))
	case err != nil:
		return nil, cannotWrite(name, err)
	case st.Mode().IsRegular():
		return &destination{name: name, path: path, exists: true}, mayWrite(name, path)
	case st.Mode()&fs.ModeSocket != 0, st.Mode()&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice:
		return nil, fmt.Errorf("%s is a disk or a socket; name a file", name)
	}
	stream, err := openStream(ctx, name, path)
	return &destination{name: name, stream: stream}, err
}

// cannotWrite returns the system's error for something that cannot be written.
func cannotWrite(what string, err error) error {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		err = number
	}
	return fmt.Errorf("%s cannot be written: %w", what, err)
}

// linksMost is how many links in a row Linux follows.
const linksMost = 40

// follow resolves the links of a name; the target may not exist yet. It does not
// follow the links of /proc/PID/fd, which are no paths.
func follow(name string) (string, error) {
	next := name
	for range linksMost {
		folder, err := filepath.EvalSymlinks(filepath.Dir(next))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("there is no folder %s", filepath.Dir(next))
		case err != nil:
			return "", cannotWrite(name, err)
		}
		path := filepath.Join(folder, filepath.Base(next))
		target, err := os.Readlink(path)
		if err != nil || isDescriptor(path) {
			return path, nil // also when there is nothing
		}
		next = target
		if !filepath.IsAbs(target) {
			next = filepath.Join(folder, target)
		}
	}
	return "", fmt.Errorf("%s leads to itself", name)
}

// mayWrite checks a file by opening it for writing.
func mayWrite(name, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return cannotWrite(name, err)
	}
	return f.Close()
}

// isDescriptor reports whether a path is an open file of a process.
func isDescriptor(path string) bool {
	for _, pattern := range []string{"/proc/[0-9]*/fd/[0-9]*", "/proc/[0-9]*/task/[0-9]*/fd/[0-9]*"} {
		if is, err := filepath.Match(pattern, path); err == nil && is {
			return true
		}
	}
	return false
}

// openStream opens a device or a FIFO. A FIFO opens when a reader opens it.
func openStream(ctx context.Context, name, path string) (*os.File, error) {
	f, err := agent.Await(ctx, func() (*os.File, error) { return os.OpenFile(path, os.O_WRONLY, 0) })
	switch {
	case ctx.Err() != nil && f == nil:
		return nil, fmt.Errorf("waiting for a reader of %s: %w", name, context.Cause(ctx))
	case err != nil:
		return nil, cannotWrite(name, err)
	}
	return f, takes(name, f)
}

// takes checks a character device by writing no bytes: a full device returns an
// error.
func takes(name string, f *os.File) error {
	st, err := f.Stat()
	if err == nil && st.Mode()&fs.ModeCharDevice != 0 {
		_, err = f.Write(nil)
	}
	if err != nil {
		return cannotWrite(name, err)
	}
	return nil
}

func (d *destination) write(text []byte) error {
	var err error
	if d.stream != nil {
		_, err = d.stream.Write(text)
		err = errors.Join(err, d.stream.Close())
	} else {
		err = replaceFile(d.path, text)
	}
	if err != nil {
		return cannotWrite(d.name, err)
	}
	return nil
}

// replaceFile replaces a regular file as a whole, or creates it. The file keeps mode
// and owner. A file in a folder that takes no other file, and a file that is a mount
// of its own, is written in place.
func replaceFile(path string, text []byte) error {
	old, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		old, err = nil, nil
	}
	if err == nil && old != nil && !old.Mode().IsRegular() {
		err = errors.New("something else has taken its place")
	}
	if err != nil {
		return err
	}
	err = surface.Replace(path, text, func(temp *os.File) error {
		if old == nil {
			return temp.Chmod(0o644)
		}
		return errors.Join(keepOwner(temp, old), temp.Chmod(old.Mode().Perm()))
	})
	if old != nil && (errors.Is(err, fs.ErrPermission) || isFixed(err)) {
		return os.WriteFile(path, text, 0)
	}
	return err
}
