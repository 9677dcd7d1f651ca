package surface

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Open opens a file that a person named, for reading, and never waits for another
// process: opening a FIFO would. The file is a regular file or a folder, or what the
// name says is open already, such as /dev/stdin and a shell's <(command).
func Open(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() && !st.IsDir() && !isOpen(name) {
		err = fmt.Errorf("%s is %s, not a regular file; name a regular file", name, kind(st.Mode()))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// fileMost is the size of the largest file that ReadFile reads, in bytes.
const fileMost = 64 << 20

// ReadFile reads a whole file that a person named, as Open opens it.
func ReadFile(name string) ([]byte, error) {
	file, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, fileMost+1))
	if err == nil && len(text) > fileMost {
		err = fmt.Errorf("%s is larger than %d MiB; name a smaller file", name, fileMost>>20)
	}
	return text, err
}

// isOpen reports whether a name is that of a descriptor of this process.
func isOpen(name string) bool {
	return name == "/dev/stdin" || strings.HasPrefix(name, "/dev/fd/") || strings.HasPrefix(name, "/proc/self/fd/")
}

func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
